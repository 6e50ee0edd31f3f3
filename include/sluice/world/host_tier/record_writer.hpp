// SPDX-License-Identifier: Apache-2.0
// RecordWriter: writes blocks of the host tier to a disk on threads of its own. DiskForecast: how long a disk will
// take.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/records/record.hpp"
#include "sluice/records/record_store.hpp"
#include "sluice/world/host_tier/host_tier_steps.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Puts blocks of the tier into a store, many with one sync of the folder. A block is pinned until one thread has
/// copied it, since a tier whose blocks all wait for the disk takes no others (HostTierCounts::refused); another thread
/// writes the copies. These are memory besides the tier: `most_bytes`, or one block. Destroying the writer, without the
/// schedule's mutex, writes everything that was added; the caller of the other functions holds the mutex.
class RecordWriter {
 public:
  RecordWriter(MachineCore& core, std::shared_ptr<RecordStore> store, HostBlock host_block)
      : core_(&core),
        store_(std::move(store)),
        host_block_(std::move(host_block)),
        copies_([this] { copy(); }),
        writes_([this] { write(); }) {}
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  ~RecordWriter() {
    {
      const std::lock_guard lock{core_->schedule.mutex};
      ends_ = true;
    }
    changed_.notify_all();
    copies_.join();
    writes_.join();
  }

  void add(SettledBlock block) {
    if (store_->has(block.key)) return;
    core_->tier.pin({&block.key, 1});
    ++writing_;
    queue_.push_back(std::move(block));
    changed_.notify_all();
  }
  /// How many blocks are on their way to the disk.
  [[nodiscard]] std::int64_t writing() const { return writing_; }

 private:
  struct Copied {
    SettledBlock block;
    std::vector<std::byte> kv; ///< of its layers
  };
  static constexpr std::size_t group = 64;                        ///< blocks with one sync of the folder
  static constexpr std::size_t most_bytes = std::size_t{1} << 26; ///< of copies

  void copy() {
    std::unique_lock lock{core_->schedule.mutex};
    const auto bytes = static_cast<std::size_t>(core_->store.shape().bytes().count() * core_->layers);
    const auto most = static_cast<std::int64_t>(std::max<std::size_t>(1, most_bytes / bytes));
    for (;;) {
      changed_.wait(lock, [&] { return queue_.empty() ? ends_ : copied_ < most; });
      if (queue_.empty()) return;
      Copied next{std::move(queue_.front()), {}};
      queue_.pop_front();
      ++copied_;
      const std::span<const std::int32_t> layers = core_->tier.blocks(next.block.key);
      const std::vector<std::int32_t> host(layers.begin(), layers.end());
      lock.unlock();
      next.kv.reserve(bytes);
      for (const std::int32_t one : host) {
        const std::span<const std::byte> layer = host_block_(one);
        next.kv.insert(next.kv.end(), layer.begin(), layer.end());
      }
      lock.lock();
      core_->tier.unpin({&next.block.key, 1});
      ready_.push_back(std::move(next));
      changed_.notify_all();
    }
  }
  void write() {
    std::unique_lock lock{core_->schedule.mutex};
    for (;;) {
      changed_.wait(lock, [this] { return !ready_.empty() || (ends_ && writing_ == 0); });
      if (ready_.empty()) return;
      const auto end = ready_.begin() + static_cast<std::ptrdiff_t>(std::min(group, ready_.size()));
      std::vector<Copied> blocks(std::move_iterator(ready_.begin()), std::move_iterator(end));
      ready_.erase(ready_.begin(), end);
      lock.unlock();
      std::vector<std::array<std::span<const std::byte>, 2>> parts;
      std::vector<RecordStore::NewRecord> records;
      for (const Copied& one : blocks) parts.push_back({std::as_bytes(std::span(one.block.tokens)), one.kv});
      for (std::size_t i = 0; i < blocks.size(); ++i) records.push_back({blocks[i].block.key, parts[i]});
      put(records);
      const auto count = static_cast<std::int64_t>(blocks.size());
      blocks.clear();
      lock.lock();
      copied_ -= count;
      writing_ -= count;
      changed_.notify_all();
    }
  }
  /// The store logs failures; the host still has these blocks. One bad record must not cost the others of its group,
  /// but a full disk fails every record.
  void put(std::span<const RecordStore::NewRecord> rest) {
    for (int failures = 0; !rest.empty() && failures < 2;) {
      const std::size_t done = store_->put(rest);
      failures = done > 0 ? 0 : failures;
      if (done < rest.size()) ++failures;
      rest = rest.subspan(std::min(done + 1, rest.size()));
    }
  }

  MachineCore* core_;
  std::shared_ptr<RecordStore> store_;
  HostBlock host_block_;
  std::condition_variable changed_;
  std::deque<SettledBlock> queue_; ///< not copied yet
  std::deque<Copied> ready_;
  std::int64_t copied_ = 0;  ///< copies in memory
  std::int64_t writing_ = 0; ///< blocks that are not on the disk yet
  bool ends_ = false;
  std::thread copies_, writes_; ///< last: they use the others
};

// DiskForecast: how long a disk will take for records, by its latest reads and by what it has to read before.

/// A record is a block, so records of one machine have one size, and the time of a read has the disk's latency and rate
/// in it, and the checksum. It is the mean of the first 16 reads; from then on each read counts a sixteenth. Rejected:
/// a latency and a rate of their own, which reads of one size cannot tell apart; and a rate that the user states, since
/// the same disk reads what the system still has in memory many times faster.
///
/// Requests measure the disk as long as they read. If they decline for `old_after`, the caller reads a few records for
/// which nobody waits, and the mean begins anew with these: a disk that was slow once (it was asleep) would otherwise
/// stay slow for as many measurements as its slow reads count.
class DiskForecast {
 public:
  static constexpr Seconds old_after{10};

  /// A read that ended at `now` has taken so long.
  void took(Seconds read, Seconds now) {
    last_ = now;
    if (std::exchange(anew_, false)) reads_ = 0;
    reads_ = std::min<std::int64_t>(16, reads_ + 1);
    each_ += Seconds{(read - each_).count() / static_cast<double>(reads_)};
  }
  /// So has one that failed. A quick failure says nothing about the reads to come; a slow one, for which requests have
  /// waited, does.
  void failed(Seconds read, Seconds now) {
    last_ = now;
    if (read > each_) took(read, now);
  }
  /// Whether something has been read, but nothing lately.
  [[nodiscard]] bool is_old(Seconds now) const { return reads_ > 0 && now - last_ >= old_after; }
  /// The disk is being measured again from `now` on: the next read counts as the first.
  void measure_anew(Seconds now) {
    last_ = now;
    anew_ = true;
  }
  /// Somebody waits for these records, each of which is `done` later.
  void wait_for(std::span<const RecordKey> keys) {
    for (const RecordKey& key : keys) ++unread_[key];
  }
  void done(const RecordKey& key) {
    if (const auto found = unread_.find(key); --found->second == 0) unread_.erase(found);
  }
  /// How long it takes until these records have been read, after all that somebody waits for. What several wait for is
  /// read once. 0 as long as nothing has been read.
  [[nodiscard]] Seconds time_of(std::span<const RecordKey> keys) const {
    const auto more =
        std::count_if(keys.begin(), keys.end(), [&](const RecordKey& key) { return !unread_.contains(key); });
    return Seconds{(static_cast<double>(unread_.size()) + static_cast<double>(more)) * each_.count()};
  }

 private:
  struct HashKey {
    std::size_t operator()(const RecordKey& key) const { return static_cast<std::size_t>(key.low); }
  };

  std::unordered_map<RecordKey, int, HashKey> unread_; ///< by how many wait for them
  Seconds each_{0};
  Seconds last_{0};        ///< when a read ended, or a new measurement began
  std::int64_t reads_ = 0; ///< at most 16
  bool anew_ = false;      ///< the next read counts as the first
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// RecordWriter: writes blocks of the host tier to a disk on its own thread. DiskForecast: how long a disk will take.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/records/record.hpp"
#include "sluice/records/record_store.hpp"
#include "sluice/world/host_tier/host_tier_steps.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// A thread that puts blocks of the tier into a store, many with one sync of the folder. A block is pinned until it has
/// been written: a tier whose blocks all wait for the disk takes no others. Destroying the writer, without the
/// schedule's mutex, writes everything that was added; the caller of the other functions holds the mutex.
class RecordWriter {
 public:
  RecordWriter(MachineCore& core, std::shared_ptr<RecordStore> store, HostBlock host_block)
      : core_(&core), store_(std::move(store)), host_block_(std::move(host_block)), thread_([this] { work(); }) {}
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  ~RecordWriter() {
    {
      const std::lock_guard lock{core_->schedule.mutex};
      ends_ = true;
    }
    more_.notify_one();
    thread_.join();
  }

  void add(SettledBlock block) {
    if (store_->has(block.key)) return;
    core_->tier.pin({&block.key, 1});
    ++writing_;
    queue_.push_back(std::move(block));
    more_.notify_one();
  }
  /// Whether blocks are on their way to the disk.
  [[nodiscard]] bool works() const { return writing_ > 0; }

 private:
  static constexpr std::size_t group = 64; ///< blocks with one sync of the folder

  void work() {
    std::unique_lock lock{core_->schedule.mutex};
    for (;;) {
      more_.wait(lock, [this] { return ends_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(std::min(group, queue_.size()));
      const std::vector<SettledBlock> blocks(std::move_iterator(queue_.begin()), std::move_iterator(end));
      queue_.erase(queue_.begin(), end);
      std::vector<std::vector<std::span<const std::byte>>> parts; // of each block: its tokens, and its KV by layer
      std::vector<RecordStore::NewRecord> records;
      std::vector<RecordKey> keys;
      for (const SettledBlock& block : blocks) {
        parts.push_back({std::as_bytes(std::span(block.tokens))});
        for (const std::int32_t host : core_->tier.blocks(block.key)) parts.back().push_back(host_block_(host));
        keys.push_back(block.key);
      }
      for (std::size_t i = 0; i < blocks.size(); ++i) records.push_back({keys[i], parts[i]});
      lock.unlock();
      put(records);
      lock.lock();
      core_->tier.unpin(keys);
      writing_ -= static_cast<std::int64_t>(keys.size());
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
  std::condition_variable more_;
  std::vector<SettledBlock> queue_;
  std::int64_t writing_ = 0; ///< blocks that are not on the disk yet
  bool ends_ = false;
  std::thread thread_;
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

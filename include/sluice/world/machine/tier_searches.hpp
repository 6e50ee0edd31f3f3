// SPDX-License-Identifier: Apache-2.0
// TierSearches: look-ups of prompts in the host tier, and in the records below it, which a thread reads.
#pragma once

#include "sluice/records/record_store.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Look-ups by number, from `begin` to `take` or `leave`. Meanwhile what they have found is pinned. One thread reads
/// records, one search after another, so a record that several prompts begin with is read once, and the engine waits
/// for no disk. Whatever is wrong with a record, the search ends before it: a miss, and a line from the store.
///
/// The caller of all functions holds the schedule's mutex.
class TierSearches {
 public:
  using Lock = std::unique_lock<std::mutex>;
  /// The bytes of a host block.
  using HostBlock = std::function<std::span<std::byte>(std::int32_t)>;

  /// The longest beginning of a prompt that was found: keys of its blocks, which stay pinned until the caller unpins
  /// them, and how many of them came from the disk.
  struct Found {
    std::vector<RecordKey> keys;
    std::int64_t from_disk = 0;
  };

  explicit TierSearches(MachineCore& core) : core_(&core) {}
  TierSearches(const TierSearches&) = delete;
  TierSearches& operator=(const TierSearches&) = delete;
  /// The caller does not hold the mutex. Waits for the record that is being read.
  ~TierSearches() {
    {
      const std::lock_guard lock{core_->schedule.mutex};
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  /// From now on records of this store are read.
  void read_from(std::shared_ptr<RecordStore> store, HostBlock host_block) {
    store_ = std::move(store);
    host_block_ = std::move(host_block);
    thread_ = std::thread{[this] { work(); }};
  }

  /// Looks up blocks with these keys, which have the first `tokens`.
  std::uint64_t begin(std::vector<RecordKey> keys, std::span<const std::int32_t> tokens) {
    const std::uint64_t number = ++begun_;
    Search& search = searches_[number];
    search.found = core_->tier.find(keys);
    search.keys = std::move(keys);
    core_->tier.pin(std::span(search.keys).first(search.found));
    if (!store_) return number;
    search.reads = search.found < search.keys.size() && store_->has(search.keys[search.found]);
    if (search.reads) search.tokens.assign(tokens.begin(), tokens.end());
    if (search.reads || search.found > 0) {
      wanted_.push_back({search.reads ? number : 0, {search.keys.begin(), search.keys.begin() + at(search.found)}});
      changed_.notify_all();
    }
    return number;
  }
  /// Whether nothing is being read for it.
  [[nodiscard]] bool over(std::uint64_t number) const { return !searches_.at(number).reads; }
  /// Waits until it is over.
  void wait(Lock& lock, std::uint64_t number) {
    changed_.wait(lock, [&] { return over(number); });
  }
  /// Ends a search that is over.
  [[nodiscard]] Found take(std::uint64_t number) {
    Search search = std::move(searches_.at(number));
    searches_.erase(number);
    search.keys.resize(search.found);
    return {std::move(search.keys), search.from_disk};
  }
  /// Ends a search for a request that has left.
  void leave(std::uint64_t number) {
    Search& search = searches_.at(number);
    if (search.reads)
      search.left = true;
    else
      core_->tier.unpin(take(number).keys);
  }
  /// Whether the thread has work.
  [[nodiscard]] bool works() const { return works_ || !wanted_.empty(); }
  /// Whether any has begun and not ended.
  [[nodiscard]] bool any() const { return !searches_.empty(); }

 private:
  struct Search {
    std::vector<RecordKey> keys;
    std::vector<std::int32_t> tokens; ///< of the keys' blocks, if records are read
    std::size_t found = 0;            ///< so many from the first on are in the tier, and pinned
    std::int64_t from_disk = 0;
    bool reads = false, left = false;
  };
  /// Work for the thread.
  struct Wanted {
    std::uint64_t number = 0;    ///< of a search for which it reads; 0: none
    std::vector<RecordKey> used; ///< found on the host: their records are used, too
  };

  static std::ptrdiff_t at(std::size_t number) { return static_cast<std::ptrdiff_t>(number); }

  void work() {
    Lock lock{core_->schedule.mutex};
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || !wanted_.empty(); });
      if (wanted_.empty()) return;
      Wanted wanted = std::move(wanted_.front());
      wanted_.pop_front();
      works_ = true;
      if (wanted.number > 0) {
        Search& search = searches_.at(wanted.number); // stays where it is, since only its end removes it
        while (!search.left && !ends_ && search.found < search.keys.size() && bring(lock, search)) ++search.found;
        wanted.used.assign(search.keys.begin(), search.keys.begin() + at(search.found));
        search.reads = false;
        if (search.left) leave(wanted.number);
        changed_.notify_all();
      }
      lock.unlock();
      store_->use(wanted.used);
      lock.lock();
      works_ = false;
    }
  }
  /// Brings the next block of a search to the tier, and pins it. False: the disk does not have it, or the tier has no
  /// room.
  bool bring(Lock& lock, Search& search) {
    const RecordKey key = search.keys[search.found];
    HostTier& tier = core_->tier;
    if (!tier.holds(key)) {
      const auto each = static_cast<std::size_t>(core_->block_tokens);
      const std::span<const std::byte> own =
          std::as_bytes(std::span<const std::int32_t>(search.tokens).subspan(search.found * each, each));
      const auto block = static_cast<std::size_t>(core_->store.shape().bytes().count());
      lock.unlock();
      const bool read = store_->get(key, record_) &&
                        record_.size() == own.size() + block * static_cast<std::size_t>(core_->layers) &&
                        std::equal(own.begin(), own.end(), record_.begin());
      lock.lock();
      if (!read) return false;
      if (!tier.holds(key)) { // nobody has computed it meanwhile
        if (tier.reserve(1) == 0) return false;
        std::vector<std::int32_t> host;
        for (int layer = 0; layer < core_->layers; ++layer) {
          // Next to the block before, so that both cross the link as one copy.
          const std::int32_t last =
              search.found == 0 ? -2 : tier.blocks(search.keys[search.found - 1])[static_cast<std::size_t>(layer)];
          host.push_back(core_->store.take_host(last + 1));
        }
        lock.unlock();
        for (std::size_t layer = 0; layer < host.size(); ++layer)
          std::memcpy(host_block_(host[layer]).data(), record_.data() + own.size() + block * layer, block);
        lock.lock();
        tier.add(key, std::move(host));
      }
      ++search.from_disk;
    }
    tier.pin({&key, 1});
    return true;
  }

  MachineCore* core_;
  std::shared_ptr<RecordStore> store_; ///< null: there is no disk
  HostBlock host_block_;
  std::uint64_t begun_ = 0;
  std::unordered_map<std::uint64_t, Search> searches_;
  std::deque<Wanted> wanted_;
  bool works_ = false, ends_ = false;
  std::condition_variable changed_;
  std::vector<std::byte> record_; ///< the thread's
  std::thread thread_;
};

} // namespace sluice

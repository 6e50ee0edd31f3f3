// SPDX-License-Identifier: Apache-2.0
// RecordWriter: writes blocks of the host tier to a disk on a thread of its own.
#pragma once

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

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// RecordWriter: writes blocks of the host tier to a disk, behind the engine's back.
#pragma once

#include "sluice/records/record_store.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {

/// A thread that puts records into a store, many with one sync of the folder. The bytes stay where they are, and must
/// not change, until `written(keys)` is called, on that thread. Destroying it writes everything that was added.
class RecordWriter {
 public:
  struct Block {
    RecordKey key;
    std::vector<std::int32_t> tokens;
    std::vector<std::span<const std::byte>> parts; ///< by layer
  };

  RecordWriter(std::shared_ptr<RecordStore> store, std::function<void(std::span<const RecordKey>)> written)
      : store_(std::move(store)), written_(std::move(written)), thread_([this] { work(); }) {}
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  ~RecordWriter() {
    {
      const std::lock_guard lock{mutex_};
      ends_ = true;
    }
    more_.notify_one();
    thread_.join();
  }

  void add(Block block) {
    {
      const std::lock_guard lock{mutex_};
      queue_.push_back(std::move(block));
    }
    more_.notify_one();
  }

 private:
  static constexpr std::size_t group = 64; ///< blocks with one sync of the folder

  void work() {
    for (;;) {
      std::vector<Block> blocks;
      {
        std::unique_lock lock{mutex_};
        more_.wait(lock, [this] { return ends_ || !queue_.empty(); });
        if (queue_.empty()) return;
        const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(std::min(group, queue_.size()));
        std::move(queue_.begin(), end, std::back_inserter(blocks));
        queue_.erase(queue_.begin(), end);
      }
      std::vector<RecordStore::NewRecord> records;
      std::vector<RecordKey> keys;
      for (Block& block : blocks) {
        block.parts.insert(block.parts.begin(), std::as_bytes(std::span<const std::int32_t>(block.tokens)));
        records.push_back({block.key, block.parts});
        keys.push_back(block.key);
      }
      // The store logs failures; the host still has these blocks. One bad record must not cost the others of its group,
      // but a full disk fails every record.
      int failures = 0;
      for (std::span<const RecordStore::NewRecord> rest(records); !rest.empty() && failures < 2;) {
        const std::size_t done = store_->put(rest);
        failures = done > 0 ? 0 : failures;
        if (done < rest.size()) ++failures;
        rest = rest.subspan(std::min(done + 1, rest.size()));
      }
      written_(keys);
    }
  }

  std::shared_ptr<RecordStore> store_;
  std::function<void(std::span<const RecordKey>)> written_;
  std::mutex mutex_; ///< guards the queue
  std::condition_variable more_;
  std::vector<Block> queue_;
  bool ends_ = false;
  std::thread thread_;
};

} // namespace sluice

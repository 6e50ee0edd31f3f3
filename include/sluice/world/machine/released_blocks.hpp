// SPDX-License-Identifier: Apache-2.0
// ReleasedBlocks: K and V that stay on the device when their requests have left, by the engine's block numbers.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/records/record.hpp"
#include "sluice/world/machine/kv_store.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

/// The engine's prefix cache on a real device. The engine numbers token blocks, decides which requests hold which, and
/// says which numbers are taken (`SharedBlocks`); here each number that has been computed is one more holder of a device
/// block in each layer, so the bytes stay where they are until the number is taken. The blocks are full: nobody writes
/// to them, and there is no copy on write.
///
/// Rejected: a cache of the machine's own, by content. Its order of eviction would have to be the engine's to the block,
/// since the engine counts on what it finds.
class ReleasedBlocks {
 public:
  struct Entry {
    RecordKey key;                    ///< of its tokens and all before them
    std::vector<std::int32_t> device; ///< by layer; empty: there is none
    std::vector<std::int32_t> tokens; ///< its own
  };

  explicit ReleasedBlocks(KvStore& store) : store_(&store) {}

  /// Whether the engine shares blocks.
  [[nodiscard]] bool used() const { return used_; }
  void use() { used_ = true; }

  /// The device blocks of a number have been computed, of these tokens.
  void put(std::uint32_t number, Entry entry) {
    for (const std::int32_t block : entry.device) store_->hold(block);
    if (number >= entries_.size()) entries_.resize(number + 1);
    forget(number);
    entries_[number] = std::move(entry);
  }
  /// Takes what a number has, if anything: who calls it holds the device blocks from now on.
  [[nodiscard]] Entry take(std::uint32_t number) {
    return number < entries_.size() ? std::exchange(entries_[number], {}) : Entry{};
  }
  /// A number's content will be overwritten.
  void forget(std::uint32_t number) {
    if (number >= entries_.size()) return;
    for (const std::int32_t block : entries_[number].device) store_->give_up(block);
    entries_[number].device.clear();
  }
  /// The blocks of a number that has been computed; null if it has not, or was other tokens'.
  [[nodiscard]] const Entry* find(std::uint32_t number, const RecordKey& key) const {
    if (number >= entries_.size() || entries_[number].device.empty() || entries_[number].key != key) return nullptr;
    return &entries_[number];
  }

 private:
  KvStore* store_;
  std::vector<Entry> entries_; ///< by number
  bool used_ = false;
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// SentBlocks: the blocks that a router sent to an engine most recently.
#pragma once

#include "sluice/state/memory/prefix_cache.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// A set of block keys that forgets the least recently used. Memory grows to its limit as keys come, since a fleet has
/// one for each engine.
class SentBlocks {
 public:
  /// How many of `keys`, from the first on, are in it. Uses none.
  [[nodiscard]] std::size_t find(std::span<const BlockKey> keys) const {
    std::size_t found = 0;
    while (found < keys.size() && place(keys[found]) != KeyIndex::nobody) ++found;
    return found;
  }
  /// Adds and uses these in their order, so that of a prompt the beginning is forgotten first, as in the `Add` of
  /// gateway-api-inference-extension's prefix indexer. At most `room` remain.
  void use(std::span<const BlockKey> keys, std::size_t room, std::uint32_t stamp = 0) {
    for (const BlockKey key : keys) use(key, room, stamp);
  }
  /// The stamp of the least recently used block: no block that was last used before it is left.
  [[nodiscard]] std::uint32_t oldest() const { return size() == 0 ? 0 : stamps_[entries_[0].before]; }
  [[nodiscard]] std::size_t size() const { return entries_.empty() ? 0 : entries_.size() - 1; }

 private:
  struct Entry {
    BlockKey key{};
    std::uint32_t before = 0, after = 0; ///< a ring by use, through entry 0, which is no key
  };

  [[nodiscard]] std::uint32_t place(BlockKey key) const {
    return index_.find(key, [this](std::uint32_t at) { return entries_[at].key; });
  }
  void use(BlockKey key, std::size_t room, std::uint32_t stamp) {
    if (room == 0) return;
    if (entries_.empty()) {
      entries_.emplace_back();
      stamps_.emplace_back();
    }
    std::uint32_t at = place(key);
    if (at != KeyIndex::nobody) {
      unlink(at);
    } else if (size() < room) {
      at = static_cast<std::uint32_t>(entries_.size());
      entries_.emplace_back().key = key;
      stamps_.emplace_back();
      if (entries_.size() > indexed_) grow();
      index_.add(key, at);
    } else {
      at = entries_[0].before; // used longest ago
      unlink(at);
      index_.remove(entries_[at].key, at);
      entries_[at].key = key;
      index_.add(key, at);
    }
    stamps_[at] = stamp;
    entries_[at].before = 0;
    entries_[at].after = entries_[0].after;
    entries_[entries_[0].after].before = at;
    entries_[0].after = at;
  }
  void unlink(std::uint32_t at) {
    entries_[entries_[at].before].after = entries_[at].after;
    entries_[entries_[at].after].before = entries_[at].before;
  }
  /// The newest entry is not in the index yet.
  void grow() {
    indexed_ = std::max<std::size_t>(64, 2 * entries_.size());
    index_ = KeyIndex(indexed_);
    for (std::uint32_t i = 1; i + 1 < entries_.size(); ++i) index_.add(entries_[i].key, i);
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> stamps_; ///< by entry: of its last use
  KeyIndex index_;
  std::size_t indexed_ = 0;
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// KeyIndex: finds the number of a block by its key.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/workload/content.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice {

/// An open-addressed table of block numbers, at most two thirds full, with the upper half of each key beside its block.
///
/// Keys live with the blocks; the table asks for them (`key_of(block)`) only where the upper halves agree, so a key
/// that is absent costs one cache miss, and moving entries costs none. Its 12 bytes a block are what
/// `std::unordered_map` takes for a pointer and a half; that also allocates a node per block taken and released in
/// every step.
class KeyIndex {
 public:
  static constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();

  /// An index of no block: every `find` answers `nobody`, as at every size.
  KeyIndex() : KeyIndex(0) {}
  explicit KeyIndex(std::size_t most) : slots_(most + most / 2 + 2) {
    SLUICE_ASSERT(slots_.size() < nobody, "fewer blocks than 32 bits count");
  }

  /// The block with this key, or `nobody`.
  template <class KeyOf>
  [[nodiscard]] std::uint32_t find(BlockKey key, KeyOf&& key_of) const {
    for (std::size_t at = home(tag(key)); slots_[at].block != nobody; at = after(at))
      if (slots_[at].tag == tag(key) && key_of(slots_[at].block) == key) return slots_[at].block;
    return nobody;
  }
  /// Begins to load what `find` needs.
  void prefetch(BlockKey key) const { __builtin_prefetch(&slots_[home(tag(key))]); }
  /// Adds a key that is not there.
  void add(BlockKey key, std::uint32_t block) {
    std::size_t at = home(tag(key));
    while (slots_[at].block != nobody) at = after(at);
    slots_[at] = {block, tag(key)};
  }
  /// Removes the key of `block`, which is there.
  void remove(BlockKey key, std::uint32_t block) {
    std::size_t hole = home(tag(key));
    while (slots_[hole].block != block) hole = after(hole);
    // Entries behind the hole move up, unless that would put them before their home place (Knuth, 6.4, algorithm R).
    for (std::size_t next = after(hole); slots_[next].block != nobody; next = after(next)) {
      const std::size_t from = home(slots_[next].tag);
      if (distance(from, next) < distance(hole, next)) continue;
      slots_[hole] = slots_[next];
      hole = next;
    }
    slots_[hole] = {};
  }
  [[nodiscard]] std::size_t bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    std::uint32_t block = nobody;
    std::uint32_t tag = 0;
  };
  static std::uint32_t tag(BlockKey key) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(key) >> 32); }
  /// Keys are hashes: the upper half, scaled to the table's size, is as good as a remainder and cheaper.
  [[nodiscard]] std::size_t home(std::uint32_t of) const {
    return static_cast<std::size_t>((std::uint64_t{of} * slots_.size()) >> 32);
  }
  [[nodiscard]] std::size_t after(std::size_t at) const { return at + 1 == slots_.size() ? 0 : at + 1; }
  [[nodiscard]] std::size_t distance(std::size_t from, std::size_t to) const {
    return to >= from ? to - from : to + slots_.size() - from;
  }

  std::vector<Slot> slots_;
};

} // namespace sluice

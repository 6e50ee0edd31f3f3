// SPDX-License-Identifier: Apache-2.0
// PrefixCache: finds KV blocks that no request holds any more, until their room is needed.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/workload/content.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

// KeyIndex: finds the number of a block by its key.

/// An open-addressed table of block numbers, at most two fifths full, with the upper half of each key beside its block.
///
/// Keys live with the blocks; the table asks for them (`key_of(block)`) only where the upper halves agree, so a key
/// that is absent costs one cache miss, and moving entries costs none. It takes 20 bytes a block. (Two thirds full it
/// takes 12, and 1.6 times as long to take, fill and find a block: runs of full places are long.) `std::unordered_map`
/// takes more, and allocates a node per block taken and released in every step.
class KeyIndex {
 public:
  static constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();

  /// An index of no block: every `find` answers `nobody`, as at every size.
  KeyIndex() : KeyIndex(0) {}
  explicit KeyIndex(std::size_t most) : slots_(places(most)) {
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
  void add(BlockKey key, std::uint32_t block) { place({block, tag(key)}); }
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
  /// Whether it has room for this many blocks.
  [[nodiscard]] bool holds(std::size_t most) const { return places(most) <= slots_.size(); }
  /// Makes room for this many blocks, and keeps those that it has. Needs no keys: an entry's place follows from its
  /// tag.
  void grow(std::size_t most) {
    KeyIndex larger(most);
    for (const Slot& slot : slots_)
      if (slot.block != nobody) larger.place(slot);
    *this = std::move(larger);
  }

 private:
  struct Slot {
    std::uint32_t block = nobody;
    std::uint32_t tag = 0;
  };
  void place(const Slot& slot) {
    std::size_t at = home(slot.tag);
    while (slots_[at].block != nobody) at = after(at);
    slots_[at] = slot;
  }
  static std::size_t places(std::size_t most) { return 2 * most + most / 2 + 2; }
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

/// The sum of `size` of those in `given`, each as often as a request gives it up, that have no other holder and are not
/// in `taken`. Sorts both.
template <class Holders, class Size>
[[nodiscard]] std::int64_t freed_of(std::vector<std::uint32_t>& given, std::vector<std::uint32_t>& taken,
                                    Holders&& holders, Size&& size) {
  std::sort(given.begin(), given.end());
  std::sort(taken.begin(), taken.end());
  std::int64_t sum = 0;
  for (auto first = given.begin(); first != given.end();) {
    const auto last = std::upper_bound(first, given.end(), *first);
    if (last - first == holders(*first) && !std::binary_search(taken.begin(), taken.end(), *first)) sum += size(*first);
    first = last;
  }
  return sum;
}

/// The device's token blocks by content, as in vLLM's automatic prefix caching: a released block can be found by its
/// key while it is in the queue of free blocks, and is forgotten when another request takes it.
///
/// - Blocks are taken from the front of the queue, the longest released first. A request's blocks join it at the
///   back, the last block first, so that a request's beginning survives longest.
/// - A block found by several requests is held once: `free()` counts blocks, not requests.
/// - Free blocks count as free even if they can be found; a request that attaches to one removes it from the queue.
///
/// A preempted request finds its blocks that were not overwritten in between; without that, the recorded run recomputes
/// for 5 % longer (docs/fidelity.md).
///
/// A block that was computed behind another one is found through that one (`Block::next`), so the index has only the
/// first block of each prompt, and the blocks at which prompts that begin alike part. It is small: a fleet has one for
/// each of its engines, and indices of all blocks do not fit in a processor's caches together. So keys are looked up
/// from a prompt's first one on. For a cache that must find single keys (`has`), the index has all blocks.
///
/// Every operation costs O(blocks it touches). After construction only a growing table or index allocates.
class PrefixCache {
 public:
  /// The blocks of one request, in the order of its tokens.
  struct Table {
    std::vector<std::uint32_t> blocks;
    std::size_t sealed = 0; ///< how many blocks, from the first, are full and can be found
  };

  /// `each`: a key can be found without those before it.
  explicit PrefixCache(TokenBlocks blocks, bool each = false);

  [[nodiscard]] TokenBlocks free() const { return TokenBlocks{free_}; }
  /// Makes it have this many blocks, at least those that are held. The longest released go first, with their content.
  void resize(TokenBlocks total);

  /// How many of `keys`, a prompt's from its first one on, can be found.
  [[nodiscard]] std::size_t find(std::span<const BlockKey> keys) const { return find_held(keys).blocks; }
  /// Whether this key can be found, in a cache that finds each.
  [[nodiscard]] bool has(BlockKey key) const;
  struct Found {
    std::size_t blocks = 0;
    std::size_t held = 0; ///< those of them that a request holds: they take no room
  };
  /// The same, and how many of them a request holds.
  [[nodiscard]] Found find_held(std::span<const BlockKey> keys) const;

  /// Adds the blocks of `keys`, which can all be found, to `blocks`.
  void add_found(std::span<const BlockKey> keys, std::vector<std::uint32_t>& blocks) const;
  /// How many blocks join the queue if requests give up `given`, all blocks of some tables, and others take `taken`.
  /// Sorts both; a block may repeat.
  [[nodiscard]] std::int64_t freed(std::vector<std::uint32_t>& given, std::vector<std::uint32_t>& taken) const;

  /// Makes an empty table start with the blocks of `keys`, which can all be found.
  void attach(Table& table, std::span<const BlockKey> keys);
  /// Adds `count` free blocks to the table; their old content can no longer be found. If `overwritten` is not null, the
  /// keys of blocks that could be found are added to it.
  void extend(Table& table, std::size_t count, std::vector<BlockKey>* overwritten = nullptr);
  /// The first `keys.size()` blocks of the table are full and can be found from now on. If another block already has a
  /// key, the key stays with that block.
  void seal(Table& table, std::span<const BlockKey> keys);
  /// The request gives up its blocks; those that no other request holds join the queue.
  void release(Table& table);
  /// The request gives up its blocks from number `first` on, which nobody is expected to find: those that no other
  /// request holds are taken before all others, the last block first.
  void release_first(Table& table, std::size_t first);

 private:
  static constexpr std::uint32_t nobody = KeyIndex::nobody;

  /// How a block is found.
  enum Place : std::uint32_t { nowhere, behind, indexed }; // behind: through the `next` of a block that can be found
  struct Block {
    BlockKey key{};
    std::uint32_t before = 0; ///< in the queue of free blocks, a ring through `ends()`
    std::uint32_t after = 0;
    std::uint32_t next = nobody; ///< was computed behind it, unless it has another key now
    std::uint32_t holders : 30 = 0;
    std::uint32_t place : 2 = nowhere;

    [[nodiscard]] bool findable() const { return place != nowhere; }
  };
  static_assert(sizeof(Block) == 24);

  [[nodiscard]] std::uint32_t ends() const { return ends_; }

  void unlink(std::uint32_t block);
  /// The block joins the queue behind `before`.
  void link(std::uint32_t block, std::uint32_t before);

  /// The block with this key, or `nobody`. `before`: the block with the key before it, or `nobody` if there is none.
  [[nodiscard]] std::uint32_t block_of(std::uint32_t before, BlockKey key) const;
  /// The block with the key of the last block that `table` has sealed.
  [[nodiscard]] std::uint32_t last_sealed(const Table& table, std::span<const BlockKey> keys) const;
  /// A block can be found by a key that no other has, from now on.
  void name(std::uint32_t block, BlockKey key, std::uint32_t before);
  void to_index(std::uint32_t block);
  void forget(std::uint32_t block);

  std::vector<Block> blocks_;
  std::vector<std::uint32_t> gone_; ///< blocks that it had, and has no longer
  KeyIndex index_;                  ///< of the findable blocks that are not behind another
  std::size_t indexed_ = 0;         ///< blocks in `index_`
  std::uint32_t ends_ = 0;          ///< the entry that is both ends of the queue
  std::int64_t total_ = 0;
  std::int64_t free_ = 0;
  bool each_ = false;
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/state/memory/prefix_cache.inl.hpp" // IWYU pragma: keep
#endif

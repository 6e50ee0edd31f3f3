// SPDX-License-Identifier: Apache-2.0
// What a TierStore remembers to choose its next eviction: the leaves by worth, the blocks passed over, ARC's ghosts.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/state/memory/prefix_cache.hpp"
#include "sluice/workload/content.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

// TierBlock, BlockList: the blocks of a TierStore, and the order of those that leave.

/// A block of a TierStore, 20 bytes.
struct TierBlock {
  static constexpr std::uint32_t nobody = KeyIndex::nobody;
  std::uint32_t key_low = 0, key_high = 0; ///< halves, so that a block is not 24 bytes
  std::uint32_t older = nobody;            ///< in its list; with worth: its place in the heap
  std::uint32_t newer = nobody;            ///< in its list; with worth: the request that used it last
  std::uint32_t list = 0;                  ///< with worth: the block before it in the tree

  [[nodiscard]] BlockKey key() const { return BlockKey{std::uint64_t{key_high} << 32 | key_low}; }
};

/// Blocks from the least to the most recent. LFU has one per number of uses, linked in ascending order.
struct BlockList {
  static constexpr std::uint32_t nobody = KeyIndex::nobody;
  std::uint32_t oldest = nobody, newest = nobody;
  std::size_t count = 0;
  std::uint32_t uses = 0, lower = nobody, higher = nobody;
};

/// How many of a request's blocks a store has.
struct TouchedBlocks {
  std::size_t held = 0;
  bool remembered = false; ///< ARC remembers some of the others
};

/// For a LeafHeap: where a block's place in it is.
struct HeapPlaces {
  std::vector<TierBlock>* blocks;
  std::uint32_t& operator()(std::uint32_t block) const { return (*blocks)[block].older; }
};

// LeafHeap: the leaves of a prefix tree, the least worthy first.

/// A binary heap whose owner knows where each block's leaf is: `place(block)` is a reference to it, which the heap
/// writes when a leaf moves. A leaf has what orders it, so that no other memory is read.
class LeafHeap {
 public:
  struct Leaf {
    double worth = 0;
    std::uint32_t time = 0; ///< of equals the oldest is the least
    std::uint32_t block = 0;
  };

  void reserve(std::size_t leaves) { leaves_.reserve(leaves); }
  [[nodiscard]] bool empty() const { return leaves_.empty(); }
  [[nodiscard]] const Leaf& least() const { return leaves_.front(); }
  /// The least of all leaves but that of `block`; null: there is none.
  [[nodiscard]] const Leaf* least_but(std::uint32_t block) const {
    if (leaves_.empty()) return nullptr;
    if (leaves_.front().block != block) return &leaves_.front();
    if (leaves_.size() == 1) return nullptr;
    return &leaves_[leaves_.size() > 2 && before(leaves_[2], leaves_[1]) ? 2 : 1];
  }
  template <class Place>
  void add(const Leaf& leaf, const Place& place) {
    leaves_.emplace_back();
    move(leaves_.size() - 1, leaf, place);
  }
  template <class Place>
  void remove(std::size_t at, const Place& place) {
    const Leaf last = leaves_.back();
    leaves_.pop_back();
    if (at < leaves_.size()) move(at, last, place);
  }
  /// `leaf` takes the place `at` of another one, or of itself, and goes from there to where it belongs.
  template <class Place>
  void move(std::size_t at, const Leaf leaf, const Place& place) {
    const auto set = [&](std::size_t to, const Leaf& one) {
      leaves_[to] = one;
      place(one.block) = static_cast<std::uint32_t>(to);
    };
    for (; at > 0 && before(leaf, leaves_[(at - 1) / 2]); at = (at - 1) / 2) set(at, leaves_[(at - 1) / 2]);
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= leaves_.size()) break;
      if (child + 1 < leaves_.size() && before(leaves_[child + 1], leaves_[child])) ++child;
      if (!before(leaves_[child], leaf)) break;
      set(at, leaves_[child]);
      at = child;
    }
    set(at, leaf);
  }
  [[nodiscard]] std::size_t bytes() const { return leaves_.capacity() * sizeof(Leaf); }

 private:
  [[nodiscard]] static bool before(const Leaf& a, const Leaf& b) {
    return a.worth != b.worth ? a.worth < b.worth : a.time < b.time;
  }

  std::vector<Leaf> leaves_;
};

// BlocksAside: blocks that evictions have passed because they stay, out of the lists from which blocks leave.

/// Each is of one list, and all of a list would leave before what is still in it, in the order in which they came here:
/// evictions pass a list from its oldest block on, and a block that is used again returns to its newest end. So those
/// that may leave again are found in exactly the order that they had, by a heap for each list: O(log n) for a block
/// that is freed, whatever else is here.
class BlocksAside {
 public:
  static constexpr std::uint32_t nobody = static_cast<std::uint32_t>(-1);

  /// Adds a block, which stays. Returns its place here.
  std::uint32_t add(std::uint32_t block, std::uint32_t list) {
    std::uint32_t place = unused_;
    if (place != nobody) {
      unused_ = ones_[place].block;
    } else {
      place = static_cast<std::uint32_t>(ones_.size());
      ones_.emplace_back();
    }
    ones_[place] = {++added_, block, list, false};
    ++size_;
    return place;
  }
  /// The block may leave from now on.
  void free(std::uint32_t place) {
    One& one = ones_[place];
    if (one.freed) return;
    one.freed = true;
    if (heaps_.size() <= one.list) heaps_.resize(one.list + 1);
    heaps_[one.list].push_back({one.number, place});
    std::push_heap(heaps_[one.list].begin(), heaps_[one.list].end(), later);
  }
  /// The first block of a list that may leave; `nobody` if there is none.
  [[nodiscard]] std::uint32_t first(std::uint32_t list) {
    if (list >= heaps_.size()) return nobody;
    for (std::vector<Freed>& heap = heaps_[list]; !heap.empty(); pop(heap))
      if (ones_[heap.front().place].number == heap.front().number) return ones_[heap.front().place].block;
    return nobody;
  }
  /// The `first` of its list stays after all.
  void keep_first(std::uint32_t place) {
    ones_[place].freed = false;
    pop(heaps_[ones_[place].list]);
  }
  /// The block is not here any more.
  void remove(std::uint32_t place) {
    ones_[place] = {0, unused_, 0, false}; // its number in a heap is passed over
    unused_ = place;
    --size_;
  }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t bytes = ones_.capacity() * sizeof(One);
    for (const std::vector<Freed>& heap : heaps_) bytes += heap.capacity() * sizeof(Freed);
    return bytes;
  }

 private:
  struct One {
    std::uint64_t number = 0; ///< the order in which they came; 0: the place is unused
    std::uint32_t block = 0;  ///< of an unused place: the next one
    std::uint32_t list = 0;
    bool freed = false; ///< it is in its list's heap
  };
  struct Freed {
    std::uint64_t number = 0;
    std::uint32_t place = 0;
  };
  static bool later(const Freed& a, const Freed& b) { return a.number > b.number; }
  static void pop(std::vector<Freed>& heap) {
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
  }

  std::vector<One> ones_;
  std::vector<std::vector<Freed>> heaps_; ///< by list
  std::uint64_t added_ = 0;
  std::size_t size_ = 0;
  std::uint32_t unused_ = nobody;
};

// Ghosts: the keys that ARC remembers of blocks that it has evicted.

/// Two lists of keys, each from the longest gone to the latest, with at most `most` keys.
///
/// A key is 8 bytes of an open-addressed table, at most five sevenths full, and 4 bytes of its list's ring, which is an
/// eighth longer than the list: 15.7 bytes a key. An entry of the table has the key's place in the ring and the upper
/// bits of the key (42 for a million keys): of two million look-ups of other keys one is mistaken. A key that leaves
/// out of turn leaves a gap in the ring. Rejected: whole keys in linked lists, as held blocks are, which take 36 bytes.
class Ghosts {
 public:
  static constexpr std::uint32_t none = 2;

  Ghosts() : Ghosts(0) {}
  explicit Ghosts(std::size_t most)
      : table_(2 * most + 4 * most / 5 + 2), place_bits_(static_cast<int>(std::bit_width(most + most / 8 + 8)) + 1) {
    SLUICE_ASSERT(place_bits_ <= 32, "fewer keys than 31 bits count");
    for (Ring& ring : rings_) ring.tags.resize(most + most / 8 + 8);
  }

  /// The list that has the key: 0, 1 or `none`.
  [[nodiscard]] std::uint32_t list_of(BlockKey key) const {
    const std::size_t at = find(key);
    return at == nowhere ? none : static_cast<std::uint32_t>(table_[at] & 1u);
  }
  [[nodiscard]] std::size_t count(std::uint32_t list) const { return rings_[list].count; }
  /// ARC's new target for the blocks that are used once, of `most` in all, after a key of `list` is wanted again.
  [[nodiscard]] double learn(double target, std::uint32_t list, std::size_t most) const {
    const auto gone_once = static_cast<double>(count(0)), gone_often = static_cast<double>(count(1));
    if (list == 0) // more room for blocks that are used once would have kept it
      return std::min(target + std::max(1.0, gone_often / gone_once), static_cast<double>(most));
    return std::max(target - std::max(1.0, gone_once / gone_often), 0.0);
  }
  /// Begins to load what the functions of a key need.
  void prefetch(BlockKey key) const { __builtin_prefetch(&table_[home(tag(key))]); }
  /// Adds a key that neither list has, as the latest of `list`.
  void add(std::uint32_t list, BlockKey key) {
    Ring& ring = rings_[list];
    if (ring.used == ring.tags.size()) close_gaps(list);
    const std::size_t place = ring.place(ring.used++);
    ring.tags[place] = tag(key);
    std::size_t at = home(tag(key));
    while (table_[at] != 0) at = after(at);
    table_[at] = entry_of(key, list, place);
    ++ring.count;
  }
  /// Removes a key if a list has it.
  void remove(BlockKey key) {
    const std::size_t at = find(key);
    if (at == nowhere) return;
    --rings_[table_[at] & 1u].count;
    erase(at);
  }
  /// Forgets the longest gone key of a list, which has one.
  void drop_oldest(std::uint32_t list) {
    Ring& ring = rings_[list];
    for (;;) {
      __builtin_prefetch(&table_[home(ring.tags[ring.place(ahead)])]);
      const std::size_t at = find_place(list, ring.first);
      ring.first = ring.place(1);
      --ring.used;
      if (at == nowhere) continue; // a gap
      --ring.count;
      return erase(at);
    }
  }
  [[nodiscard]] std::size_t bytes() const {
    return table_.capacity() * sizeof(std::uint64_t) +
           (rings_[0].tags.capacity() + rings_[1].tags.capacity()) * sizeof(std::uint32_t);
  }

 private:
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
  static constexpr std::size_t ahead = 4; ///< keys whose places are fetched early

  struct Ring {
    std::vector<std::uint32_t> tags; ///< the upper half of each key, by place
    std::size_t first = 0, used = 0; ///< the place of the longest gone, and the places from it on, with gaps
    std::size_t count = 0;

    /// The place of number `i` from the first on.
    [[nodiscard]] std::size_t place(std::size_t i) const {
      return first + i < tags.size() ? first + i : first + i - tags.size();
    }
  };

  static std::uint32_t tag(BlockKey key) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(key) >> 32); }
  [[nodiscard]] std::size_t home(std::uint32_t of) const {
    return static_cast<std::size_t>((std::uint64_t{of} * table_.size()) >> 32);
  }
  [[nodiscard]] std::size_t after(std::size_t at) const { return at + 1 == table_.size() ? 0 : at + 1; }
  /// An entry: the upper bits of the key, the place in the ring plus 1, and the list. 0 is no entry.
  [[nodiscard]] std::uint64_t entry_of(BlockKey key, std::uint32_t list, std::size_t place) const {
    return (static_cast<std::uint64_t>(key) & ~low()) | ((std::uint64_t{place} + 1) << 1u) | list;
  }
  [[nodiscard]] std::uint64_t low() const { return (std::uint64_t{1} << place_bits_) - 1; }
  [[nodiscard]] std::size_t find(BlockKey key) const {
    for (std::size_t at = home(tag(key)); table_[at] != 0; at = after(at))
      if (((table_[at] ^ static_cast<std::uint64_t>(key)) & ~low()) == 0) return at;
    return nowhere;
  }
  /// The entry of a place in a list's ring; `nowhere` if it is a gap.
  [[nodiscard]] std::size_t find_place(std::uint32_t list, std::size_t place) const {
    const std::uint64_t wanted = entry_of(BlockKey{}, list, place);
    for (std::size_t at = home(rings_[list].tags[place]); table_[at] != 0; at = after(at))
      if ((table_[at] & low()) == wanted) return at;
    return nowhere;
  }
  /// Entries behind a removed one move up, unless that would put them before their home (Knuth, 6.4, algorithm R).
  void erase(std::size_t hole) {
    const auto distance = [this](std::size_t from, std::size_t to) {
      return to >= from ? to - from : to + table_.size() - from;
    };
    for (std::size_t next = after(hole); table_[next] != 0; next = after(next)) {
      if (distance(home(static_cast<std::uint32_t>(table_[next] >> 32)), next) < distance(hole, next)) continue;
      table_[hole] = table_[next];
      hole = next;
    }
    table_[hole] = 0;
  }
  void close_gaps(std::uint32_t list) {
    Ring& ring = rings_[list];
    std::size_t into = 0;
    for (std::size_t from = 0; from < ring.used; ++from) {
      const std::size_t at = find_place(list, ring.place(from));
      if (at == nowhere) continue;
      ring.tags[ring.place(into)] = ring.tags[ring.place(from)];
      table_[at] = (table_[at] & ~low()) | ((std::uint64_t{ring.place(into)} + 1) << 1u) | list;
      ++into;
    }
    ring.used = into;
  }

  std::vector<std::uint64_t> table_;
  int place_bits_ = 0; ///< of an entry, for place and list
  std::array<Ring, 2> rings_;
};

} // namespace sluice

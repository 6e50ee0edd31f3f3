// SPDX-License-Identifier: Apache-2.0
// Ghosts: the keys that ARC remembers of blocks that it has evicted.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/workload/content.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

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

// SPDX-License-Identifier: Apache-2.0
// GroupPrefixCache: finds the KV of earlier requests for models whose layers keep different things.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/state/memory/prefix_cache.hpp"
#include "sluice/workload/content.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// The end of a request's block, where a checkpoint of its states may be kept. All fields count blocks from the
/// request's first token.
struct BlockEnd {
  std::int64_t blocks = 0; ///< before this end
  std::int64_t last = 0;   ///< before the last end that the same iteration reached
  std::int64_t shared = 0; ///< which an earlier request had too, as far as could be found when this one joined
  std::int64_t prompt = 0; ///< full blocks of the prompt

  friend constexpr bool operator==(const BlockEnd&, const BlockEnd&) = default;
};

/// PrefixCache for groups of layers (`KvBlocks`): an entry is the block of one group, or a checkpoint of its state. It
/// takes that group's quanta of one arena, and all entries that no request holds are in one queue, the longest unused
/// first. A request needs room for all groups or none, so a pool for each group would be full for one of them while
/// others have room.
///
/// - **A hit** is a number of blocks after which every group has what later tokens read: groups that grow all blocks,
///   windows the last ones, states a checkpoint at exactly that end. Each group lowers the number to its own best,
///   until none changes it; a request never gets some of the groups alone.
/// - **Blocks of growing groups** are held once by all requests that have them, as in PrefixCache.
/// - **Blocks of windows** belong to one request: what it finds free it takes over, and what another holds it copies.
///   The oldest joins the queue when the window has passed it. Shared blocks would take more room when the window of
///   one holder moves on, though no request grows.
/// - **A state** is overwritten in place, so a request has its own, and checkpoints are copies, free at once. Blocks
///   that a chunk passes without keeping them are also stored like that.
///
/// A model with one group of all tokens finds the same as with PrefixCache. Every operation costs O(blocks it touches)
/// for each group.
class GroupPrefixCache {
 public:
  /// The entries of one request.
  struct Table {
    struct Run {
      std::int64_t first = 0; ///< number of the first entry
      std::vector<std::uint32_t> entries;
    };
    std::vector<Run> runs;   ///< of each group
    std::int64_t blocks = 0; ///< for which the request has room
    std::int64_t shared = 0; ///< `BlockEnd::shared`
    std::int64_t prompt = 0; ///< `BlockEnd::prompt`
  };

  /// `room`: quanta of the arena.
  GroupPrefixCache(LayerBlocks room, const KvBlocks& kv)
      : kv_(kv), total_(room.count()), blank_(room.count()), free_(room.count()) {
    SLUICE_ASSERT(room.count() >= 0 && !kv.empty(), "room for KV in groups");
    for (const KvPart& part : kv.parts()) {
      least_ = std::min(least_, part.size());
      cycle_ = std::lcm(cycle_, part.step);
      if (!part.grows()) longest_ = std::max(longest_, part.keep);
      grows_ = grows_ || part.grows();
    }
    index_ = KeyIndex(most_entries());
    slots_.resize(1); // both ends of the queue
  }

  /// Quanta that no request holds.
  [[nodiscard]] LayerBlocks free() const { return LayerBlocks{free_}; }
  /// Makes the arena this large, at least what is held. What was unused longest goes first.
  void resize(LayerBlocks room) {
    const std::int64_t more = room.count() - total_;
    SLUICE_ASSERT(free_ + more >= 0, "room for what is held");
    while (blank_ + more < 0) drop_oldest();
    total_ += more;
    blank_ += more;
    free_ += more;
    if (index_.holds(most_entries())) return;
    index_ = KeyIndex(2 * most_entries());
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
      if (slots_[slot].findable) index_.add(slots_[slot].key, slot);
  }

  /// The most blocks, from the first of `keys` on, of which every group has what later tokens read.
  [[nodiscard]] std::size_t find(std::span<const BlockKey> keys) const {
    std::int64_t found = known(keys);
    for (std::int64_t before = -1; found != before && found > 0;) {
      before = found;
      for (std::size_t g = 0; g < parts().size(); ++g) found = best(g, keys, found);
    }
    return static_cast<std::size_t>(found);
  }
  /// Whether more than `keys` may be found of a prompt that begins with them: growing groups have all of them. Windows
  /// and states do not say, since what they have later is enough.
  [[nodiscard]] bool may_find(std::span<const BlockKey> keys) const {
    return known(keys) >= std::ssize(keys) / cycle_ * cycle_;
  }
  /// By how many blocks a request with this prefix, which can be found, needs less room than its length says: the room
  /// of `t` blocks less those of growing groups that requests hold is at most that of `t` less this many blocks, for
  /// every `t` above the prefix, and grows by the same with each further block. So no block of a window is left out.
  [[nodiscard]] std::int64_t held(std::span<const BlockKey> keys) const {
    const auto count = static_cast<std::int64_t>(keys.size());
    if (!grows_) return 0;
    std::int64_t least = std::max<std::int64_t>(0, std::min(count, count + 1 - longest_));
    for (std::size_t g = 0; g < parts().size() && least > 0; ++g) {
      const KvPart& part = parts()[g];
      if (!part.grows()) continue;
      std::int64_t entries = 0;
      for (std::int64_t entry = 0; entry < count / part.step; ++entry)
        entries += slots_[find(g, keys, entry)].holders > 0 ? 1 : 0;
      least = std::min(least, entries * part.step);
    }
    return least / cycle_ * cycle_;
  }
  /// Adds the entries of `table` to `entries`.
  void add_held(const Table& table, std::vector<std::uint32_t>& entries) const {
    for (const Table::Run& run : table.runs)
      std::copy_if(run.entries.begin(), run.entries.end(), std::back_inserter(entries),
                   [](std::uint32_t entry) { return entry != nobody; });
  }
  /// Adds the entries that requests share of a prefix that can be found, those of growing groups, to `entries`.
  void add_found(std::span<const BlockKey> keys, std::vector<std::uint32_t>& entries) const {
    for (std::size_t g = 0; g < parts().size(); ++g)
      for (std::int64_t entry = 0; parts()[g].grows() && entry < std::ssize(keys) / parts()[g].step; ++entry)
        entries.push_back(find(g, keys, entry));
  }
  /// The quanta of entries that join the queue if requests give up `given` and others take `taken`. Sorts both.
  [[nodiscard]] std::int64_t freed(std::vector<std::uint32_t>& given, std::vector<std::uint32_t>& taken) const {
    return freed_of(
        given, taken, [this](std::uint32_t entry) { return slots_[entry].holders; },
        [this](std::uint32_t entry) { return parts()[slots_[entry].group].size(); });
  }
  /// Whether group `g` has the entry that ends with the last of `keys`: for tests.
  [[nodiscard]] bool has(std::size_t g, std::span<const BlockKey> keys) const {
    return !keys.empty() && find(key_of(g, keys.back())) != nobody;
  }

  /// Makes an empty table start with the first `found` blocks of `keys`, which can be found.
  void attach(Table& table, std::span<const BlockKey> keys, std::size_t found) {
    SLUICE_ASSERT(table.blocks == 0, "a table without blocks");
    table.runs.resize(parts().size());
    table.shared = grows_ ? known(keys) : static_cast<std::int64_t>(found);
    table.blocks = static_cast<std::int64_t>(found);
    for (std::size_t g = 0; g < parts().size(); ++g) {
      const KvPart& part = parts()[g];
      Table::Run& run = table.runs[g];
      if (part.state) {
        if (found > 0) touch(find(key_of(g, keys[found - 1])));
        continue;
      }
      const auto [first, last] = part.kept(table.blocks);
      run.first = first;
      for (std::int64_t entry = first; entry < last; ++entry) {
        std::uint32_t slot = find(g, keys, entry);
        SLUICE_ASSERT(slot != nobody || !part.grows(), "a prefix that can be found");
        if (slot != nobody && slots_[slot].holders > 0 && !part.grows()) slot = nobody; // `extend` takes room for it
        if (slot != nobody && slots_[slot].holders++ == 0) unlink(slot);
        run.entries.push_back(slot);
      }
    }
  }
  /// Takes room for `blocks` blocks in all; overwritten entries can no longer be found.
  void extend(Table& table, std::int64_t blocks) {
    SLUICE_ASSERT(blocks >= table.blocks, "a table that grows");
    table.runs.resize(parts().size());
    for (std::size_t g = 0; g < parts().size(); ++g) { // before any takes room
      const auto [first, last] = parts()[g].kept(blocks);
      Table::Run& run = table.runs[g];
      if (parts()[g].state) continue;
      const auto passed =
          std::min(static_cast<std::int64_t>(run.entries.size()), std::max<std::int64_t>(0, first - run.first));
      for (std::int64_t i = 0; i < passed; ++i)
        if (const std::uint32_t slot = run.entries[static_cast<std::size_t>(i)]; slot != nobody) give_up(slot);
      run.entries.erase(run.entries.begin(), run.entries.begin() + passed);
      run.first = run.entries.empty() ? first : run.first + passed;
    }
    for (std::size_t g = 0; g < parts().size(); ++g) {
      const std::int64_t last = parts()[g].kept(blocks).second;
      Table::Run& run = table.runs[g];
      if (parts()[g].state) {
        run.first = last - 1;
        if (run.entries.empty()) run.entries.push_back(take(g));
        continue;
      }
      for (std::uint32_t& slot : run.entries)
        if (slot == nobody) slot = take(g);
      while (run.first + static_cast<std::int64_t>(run.entries.size()) < last) run.entries.push_back(take(g));
    }
    table.blocks = blocks;
  }
  /// The request's first `keys.size()` blocks are full and can be found from now on; before, the first `sealed` were.
  /// If another entry already has a key, the key stays with that entry. `keeps(BlockEnd)`: whether to keep a
  /// checkpoint.
  template <class Keeps>
  void seal(const Table& table, std::size_t sealed, std::span<const BlockKey> keys, Keeps&& keeps) {
    const auto last = static_cast<std::int64_t>(keys.size());
    SLUICE_ASSERT(last <= table.blocks, "a key per block held, at most");
    for (auto block = static_cast<std::int64_t>(sealed); block < last; ++block)
      for (std::size_t g = 0; g < parts().size(); ++g) {
        const KvPart& part = parts()[g];
        const BlockKey key = key_of(g, keys[static_cast<std::size_t>(block)]);
        if (part.state) {
          if (keeps(BlockEnd{block + 1, last, table.shared, table.prompt})) store(g, key);
        } else if ((block + 1) % part.step == 0) {
          const Table::Run& run = table.runs[g];
          const std::int64_t at = (block + 1) / part.step - 1 - run.first;
          if (at < 0)
            store(g, key); // the window has passed it within one chunk
          else
            name(run.entries[static_cast<std::size_t>(at)], key);
        }
      }
  }
  /// The request gives up its entries. Those that no other request holds join the queue, the last block first.
  void release(Table& table) {
    for (std::int64_t block = table.blocks; block-- > 0;)
      for (std::size_t g = 0; g < table.runs.size(); ++g) {
        const KvPart& part = parts()[g];
        Table::Run& run = table.runs[g];
        if (run.entries.empty() || (block + 1) % part.step != 0) continue;
        if ((block + 1) / part.step != run.first + static_cast<std::int64_t>(run.entries.size())) continue;
        if (run.entries.back() != nobody) give_up(run.entries.back());
        run.entries.pop_back();
      }
    table = {};
  }

 private:
  static constexpr std::uint32_t nobody = KeyIndex::nobody;
  static constexpr std::uint32_t ends = 0; ///< of the queue, a ring

  struct Entry {
    std::uint32_t before = ends; ///< in the queue
    std::uint32_t after = ends;
    std::int32_t holders = 0;
    std::uint8_t group = 0;
    bool findable = false;
    BlockKey key{};
  };

  [[nodiscard]] std::span<const KvPart> parts() const { return kv_.parts(); }
  [[nodiscard]] static BlockKey key_of(std::size_t g, BlockKey key) { return next_key(key, g); }
  [[nodiscard]] std::uint32_t find(BlockKey key) const {
    return index_.find(key, [this](std::uint32_t slot) { return slots_[slot].key; });
  }
  [[nodiscard]] std::uint32_t find(std::size_t g, std::span<const BlockKey> keys, std::int64_t entry) const {
    return find(key_of(g, keys[static_cast<std::size_t>((entry + 1) * parts()[g].step - 1)]));
  }
  /// How many blocks, from the first on, all growing groups have.
  [[nodiscard]] std::int64_t known(std::span<const BlockKey> keys) const {
    auto count = static_cast<std::int64_t>(keys.size());
    for (std::size_t g = 0; g < parts().size(); ++g) {
      const KvPart& part = parts()[g];
      if (!part.grows()) continue;
      std::int64_t entry = 0;
      while (entry < count / part.step && find(g, keys, entry) != nobody) ++entry;
      count = std::min(count, entry * part.step);
    }
    return count;
  }
  /// The most blocks, at most `count`, of which group `g` has what later tokens read. A growing group has `count`: what
  /// it has of more blocks it has of fewer. An entry that `count` cuts in two is not complete.
  [[nodiscard]] std::int64_t best(std::size_t g, std::span<const BlockKey> keys, std::int64_t count) const {
    const KvPart& part = parts()[g];
    if (part.state) {
      while (count > 0 && find(key_of(g, keys[static_cast<std::size_t>(count - 1)])) == nobody) --count;
      return count;
    }
    count = count / part.step * part.step;
    if (part.grows()) return count;
    for (std::int64_t entry = count / part.step; entry-- > part.first_read(count) / part.step;)
      if (find(g, keys, entry) == nobody) count = entry * part.step; // its end is the first that does not read it
    return count;
  }

  void unlink(std::uint32_t slot) {
    slots_[slots_[slot].before].after = slots_[slot].after;
    slots_[slots_[slot].after].before = slots_[slot].before;
    free_ -= parts()[slots_[slot].group].size();
  }
  void append(std::uint32_t slot) {
    const std::uint32_t last = slots_[ends].before;
    slots_[slot].before = last;
    slots_[slot].after = ends;
    slots_[last].after = slot;
    slots_[ends].before = slot;
    free_ += parts()[slots_[slot].group].size();
  }
  void touch(std::uint32_t slot) {
    if (slots_[slot].holders > 0) return;
    unlink(slot);
    append(slot);
  }
  void give_up(std::uint32_t slot) {
    SLUICE_ASSERT(slots_[slot].holders > 0, "an entry that is held");
    if (--slots_[slot].holders == 0) append(slot);
  }
  [[nodiscard]] std::size_t most_entries() const { return static_cast<std::size_t>(total_ / least_) + 1; }
  /// Makes the entry that was unused longest blank.
  void drop_oldest() {
    const std::uint32_t oldest = slots_[ends].after;
    unlink(oldest);
    const std::int64_t freed = parts()[slots_[oldest].group].size();
    blank_ += freed;
    free_ += freed;
    if (slots_[oldest].findable) index_.remove(slots_[oldest].key, oldest);
    slots_[oldest].findable = false;
    unused_.push_back(oldest);
  }
  /// A held entry of group `g`. It takes the place of those that were unused longest.
  std::uint32_t take(std::size_t g) {
    const std::int64_t size = parts()[g].size();
    SLUICE_ASSERT(size <= free_, "as much free room");
    while (blank_ < size) drop_oldest();
    blank_ -= size;
    free_ -= size;
    if (unused_.empty()) {
      unused_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const std::uint32_t slot = unused_.back();
    unused_.pop_back();
    slots_[slot] = {.holders = 1, .group = static_cast<std::uint8_t>(g)};
    return slot;
  }
  void name(std::uint32_t slot, BlockKey key) {
    if (slots_[slot].findable || find(key) != nobody) return;
    slots_[slot].key = key;
    slots_[slot].findable = true;
    index_.add(key, slot);
  }
  /// Stores an entry that no request holds, if there is room.
  void store(std::size_t g, BlockKey key) {
    if (const std::uint32_t there = find(key); there != nobody) return touch(there);
    if (parts()[g].size() > free_) return;
    const std::uint32_t slot = take(g);
    name(slot, key);
    give_up(slot);
  }

  KvBlocks kv_;
  std::int64_t cycle_ = 1;   ///< blocks after which all groups' entries end together
  std::int64_t longest_ = 0; ///< blocks that a group that does not grow keeps at most
  bool grows_ = false;       ///< some group grows
  std::vector<Entry> slots_;
  std::vector<std::uint32_t> unused_;                             ///< slots without an entry
  KeyIndex index_;                                                ///< of the findable entries
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max(); ///< quanta of the smallest entry
  std::int64_t total_ = 0;                                        ///< quanta of the arena
  std::int64_t blank_ = 0;                                        ///< quanta without an entry
  std::int64_t free_ = 0;                                         ///< these and the queue's
};

} // namespace sluice

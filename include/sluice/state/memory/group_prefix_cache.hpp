// SPDX-License-Identifier: Apache-2.0
// GroupPrefixCache: finds the KV of earlier requests for models whose layers keep different things.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/state/memory/prefix_cache.hpp"
#include "sluice/workload/content.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
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
  GroupPrefixCache(LayerBlocks room, const KvBlocks& kv);

  /// Quanta that no request holds.
  [[nodiscard]] LayerBlocks free() const { return LayerBlocks{free_}; }
  /// Makes the arena this large, at least what is held. What was unused longest goes first.
  void resize(LayerBlocks room);

  /// The most blocks, from the first of `keys` on, of which every group has what later tokens read.
  [[nodiscard]] std::size_t find(std::span<const BlockKey> keys) const;
  /// Whether more than `keys` may be found of a prompt that begins with them: growing groups have all of them. Windows
  /// and states do not say, since what they have later is enough.
  [[nodiscard]] bool may_find(std::span<const BlockKey> keys) const;
  /// By how many blocks a request with this prefix, which can be found, needs less room than its length says: the room
  /// of `t` blocks less those of growing groups that requests hold is at most that of `t` less this many blocks, for
  /// every `t` above the prefix, and grows by the same with each further block. So no block of a window is left out.
  [[nodiscard]] std::int64_t held(std::span<const BlockKey> keys) const;
  /// Adds the entries of `table` to `entries`.
  void add_held(const Table& table, std::vector<std::uint32_t>& entries) const;
  /// Adds the entries that requests share of a prefix that can be found, those of growing groups, to `entries`.
  void add_found(std::span<const BlockKey> keys, std::vector<std::uint32_t>& entries) const;
  /// The quanta of entries that join the queue if requests give up `given` and others take `taken`. Sorts both.
  [[nodiscard]] std::int64_t freed(std::vector<std::uint32_t>& given, std::vector<std::uint32_t>& taken) const;
  /// Whether group `g` has the entry that ends with the last of `keys`: for tests.
  [[nodiscard]] bool has(std::size_t g, std::span<const BlockKey> keys) const;

  /// Makes an empty table start with the first `found` blocks of `keys`, which can be found.
  void attach(Table& table, std::span<const BlockKey> keys, std::size_t found);
  /// Takes room for `blocks` blocks in all; overwritten entries can no longer be found.
  void extend(Table& table, std::int64_t blocks);
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
  void release(Table& table);

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
  [[nodiscard]] std::uint32_t find(BlockKey key) const;
  [[nodiscard]] std::uint32_t find(std::size_t g, std::span<const BlockKey> keys, std::int64_t entry) const;
  /// How many blocks, from the first on, all growing groups have.
  [[nodiscard]] std::int64_t known(std::span<const BlockKey> keys) const;
  /// The most blocks, at most `count`, of which group `g` has what later tokens read. A growing group has `count`: what
  /// it has of more blocks it has of fewer. An entry that `count` cuts in two is not complete.
  [[nodiscard]] std::int64_t best(std::size_t g, std::span<const BlockKey> keys, std::int64_t count) const;

  void unlink(std::uint32_t slot);
  void append(std::uint32_t slot);
  void touch(std::uint32_t slot);
  void give_up(std::uint32_t slot);
  [[nodiscard]] std::size_t most_entries() const { return static_cast<std::size_t>(total_ / least_) + 1; }
  /// Makes the entry that was unused longest blank.
  void drop_oldest();
  /// A held entry of group `g`. It takes the place of those that were unused longest.
  std::uint32_t take(std::size_t g);
  void name(std::uint32_t slot, BlockKey key);
  /// Stores an entry that no request holds, if there is room.
  void store(std::size_t g, BlockKey key);

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

#ifndef SLUICE_COMPILED
#include "sluice/state/memory/group_prefix_cache.inl.hpp" // IWYU pragma: keep
#endif

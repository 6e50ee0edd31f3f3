// SPDX-License-Identifier: Apache-2.0
// PrefixReuse: the prefix cache next to an engine's ledger, and which of its blocks each live request holds.
#pragma once

#include "sluice/state/memory/group_prefix_cache.hpp"
#include "sluice/state/memory/prefix_cache.hpp"
#include "sluice/state/memory/shared_blocks.hpp"
#include "sluice/state/view/request_row.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// The ledger counts what each request took; the cache holds a shared block once. Both always have the same number of
/// free blocks: a joining request takes room for what it does not find *held*, and after a release the ledger's
/// capacity follows the cache. It also does after a commit that preempts, since one that joins may hold what a victim
/// gave up; the decision has counted such blocks (`freed`). Models with KV in groups have a GroupPrefixCache instead,
/// whose quanta are the ledger's; there the capacity follows after every commit, since a request that joins counts the
/// blocks of its windows that another holds as its own, and two may have counted what both found.
///
/// Engines whose Retention finds no released blocks (`finds_released = false`) have an empty one; with tiers it keeps
/// the keys of their requests' blocks.
class PrefixReuse {
 public:
  /// Blocks of a request that has ended, which stay held until a time.
  struct Pin {
    PrefixCache::Table table;
    LayerBlocks room{0}; ///< what the request took of the ledger
    std::uint32_t session = 0;
    Seconds until{0};
  };

  PrefixReuse() = default;
  /// `each`: `finds(BlockKey)` is asked.
  PrefixReuse(TokenBlocks blocks, bool each) : cache_(blocks, each) {}
  /// For KV in groups. `keeps`: where to keep checkpoints of states.
  PrefixReuse(LayerBlocks room, const KvBlocks& kv, bool (*keeps)(const BlockEnd&))
      : groups_(Groups{GroupPrefixCache(room, kv), {}, keeps}) {}

  /// A request arrives. `prompt` names the full blocks of its prompt; empty if it shares no prefix.
  void enter(Slot slot, RequestId id, std::span<const BlockKey> prompt);
  /// The request's first `tokens` tokens have KV that came over a network with it, whatever can be found: it takes room
  /// when the request joins. Not for KV in groups.
  void arrive(Slot slot, Tokens tokens) { holdings_[index(slot)].arrived = tokens; }
  /// For a request without blocks, writes into its row how much of its context can be found now; the request computes
  /// only what follows. Returns whether the row changed.
  bool look_up(Slot slot, RequestRow& row, Tokens block_tokens);
  /// Not for KV in groups, which no tier has.
  [[nodiscard]] bool finds(BlockKey key) const { return cache_.has(key); }
  /// How many of `keys`, from the first on, can be found.
  [[nodiscard]] std::size_t finds(std::span<const BlockKey> keys) const;
  /// Whether a prompt that begins with `keys` may find what follows them.
  [[nodiscard]] bool may_find(std::span<const BlockKey> keys) const;
  /// The request joins: it takes the found blocks before any request takes a free block.
  void attach(Slot slot, const RequestRow& row, Tokens block_tokens);
  /// The request takes blocks for `tokens` tokens of context.
  void extend(Slot slot, Tokens tokens, Tokens block_tokens);
  /// The request's first `computed` tokens have KV, which others can find from now on.
  void seal(Slot slot, Tokens computed, Tokens block_tokens);
  /// Whether `look_up` would find the same now; it has looked that far before.
  [[nodiscard]] bool finds_the_same(Slot slot, const RequestRow& row, Tokens block_tokens) const;
  /// The room that is free for `joining` once the requests in `leaving` have released their blocks: less what others
  /// hold too, and less what one that joins has found and counted as held. For a model of `layers` layers.
  [[nodiscard]] LayerBlocks freed(std::span<const Slot> leaving, std::span<const Slot> joining,
                                  std::span<const RequestRow> rows, Tokens block_tokens, int layers) const;
  /// The keys of the request's full blocks within its first `tokens` tokens.
  [[nodiscard]] std::span<const BlockKey> keys_within(Slot slot, Tokens tokens, Tokens block_tokens);
  /// The blocks that the request would load: `look_up` has made their keys.
  [[nodiscard]] std::span<const BlockKey> loaded_keys(Slot slot, const RequestRow& row, Tokens block_tokens) const;
  /// How many blocks of the request were offered to the tier.
  std::size_t& offered(Slot slot) { return holdings_[index(slot)].offered; }
  /// The request releases its blocks; they can be found until another request overwrites them.
  void release(Slot slot);
  /// The same for the blocks from number `first` on, which others take before all others.
  void release_first(Slot slot, std::size_t first) { cache_.release_first(holdings_[index(slot)].table, first); }
  /// Weights gave up memory, or took it back: there is this room in all, for a model of `layers` layers.
  void resize(LayerBlocks room, int layers);
  /// Room that no request and no pin holds, for a model of `layers` layers.
  [[nodiscard]] LayerBlocks free(int layers) const;

  // Who uses a block, for engines whose policies read `keep` or `release`: what others use, too, is not given up.

  /// `user`, a session or a request without one, uses the request's blocks within `tokens` tokens.
  void use(Slot slot, std::uint64_t user, Tokens tokens, Tokens block_tokens);
  /// Forgets who used blocks that are nowhere any more, as soon as that halves what is known. `is_known(key)`: whether
  /// the device or a tier has a block.
  template <class Known>
  void forget_users(const Known& is_known) {
    if (users_.size() < most_users_) return;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < users_.size(); ++i)
      if (is_known(users_[i].key)) users_[kept++] = users_[i];
    keep_users(kept);
  }
  /// The request's first block within `tokens` tokens from which on nobody else has used any. Users of a block have
  /// used all blocks before it.
  [[nodiscard]] std::size_t first_own(Slot slot, std::uint64_t user, Tokens tokens, Tokens block_tokens);

  /// The request ends, and `pin` holds its blocks from now on.
  void pin(Slot slot, Pin pin);
  /// Releases the blocks of a pin. Returns the room that it had of the ledger.
  LayerBlocks unpin(std::size_t i);
  [[nodiscard]] const std::vector<Pin>& pins() const { return pins_; }
  /// What all pins have of the ledger.
  [[nodiscard]] LayerBlocks pinned() const { return pinned_; }

  /// From now on it keeps the keys of blocks that could be found and are overwritten, until `forget_overwritten`.
  void note_overwritten() { notes_overwritten_ = true; }
  [[nodiscard]] std::span<const BlockKey> overwritten() const { return overwritten_; }
  void forget_overwritten() { overwritten_.clear(); }
  /// Engines of a node that share tiers number their requests alike: with different `engine`s, the keys that each makes
  /// up for its own requests' blocks differ. 0, the default, changes no key.
  void tell_apart(std::uint64_t engine) { engine_ = engine; }

  // For a real backend, which has the blocks -------------------------------------------------------------------------

  /// From now on the backend names blocks, of prompts and answers, and reads which are taken. `to_host`: its host gets
  /// their content before.
  void name_by(const BlockNames& names, bool to_host) {
    names_ = names;
    taken_go_to_host_ = to_host;
  }
  [[nodiscard]] bool named() const { return names_.of != nullptr; }
  /// What the backend carries out; valid until a request changes. Without names there is nothing.
  [[nodiscard]] SharedBlocks shared() const {
    if (!named()) return {};
    return {this,
            [](const void* of, Slot slot) -> SharedBlocks::Table {
              const auto& holdings = static_cast<const PrefixReuse*>(of)->holdings_;
              if (index(slot) >= holdings.size()) return {};
              return {holdings[index(slot)].table.blocks, holdings[index(slot)].table.sealed};
            },
            taken_, taken_go_to_host_};
  }
  /// The backend knows of the blocks that were taken.
  void forget_taken() { taken_.clear(); }

 private:
  struct Entry {
    std::vector<BlockKey> keys;
    PrefixCache::Table table;
    RequestId id{};
    std::size_t offered = 0;
    Tokens arrived{0};
  };
  /// Instead of `cache_`, and of the blocks of an entry's table.
  struct Groups {
    GroupPrefixCache cache;
    std::vector<GroupPrefixCache::Table> tables; ///< by slot
    bool (*keeps)(const BlockEnd&) = nullptr;

    GroupPrefixCache::Table& table(Slot slot);
  };
  /// How many of `keys` can be found, and how many of those count as held.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> found_and_held(std::span<const BlockKey> keys) const;
  /// The keys of the request's first `count` blocks. Those that nobody names get keys of their own.
  std::span<const BlockKey> keys_of(Slot slot, std::size_t count);

  /// Who uses a block: a user, or `several`.
  struct Use {
    BlockKey key{};
    std::uint64_t user = 0;
  };
  /// The number in `users_`, or `KeyIndex::nobody`.
  [[nodiscard]] std::uint32_t use_of(BlockKey key) const;
  /// Forgets all but the first `kept`.
  void keep_users(std::size_t kept);
  void index_users();

  PrefixCache cache_{TokenBlocks{0}};
  std::optional<Groups> groups_;
  std::vector<Entry> holdings_;
  std::vector<Pin> pins_;
  LayerBlocks pinned_{0};
  static constexpr std::uint64_t several = 0;
  static constexpr std::size_t least_users = 1024;
  std::size_t most_users_ = least_users;
  std::vector<Use> users_; ///< of blocks that have been used at all
  KeyIndex used_;          ///< of these, by key
  std::vector<BlockKey> overwritten_;
  bool notes_overwritten_ = false;
  std::uint64_t engine_ = 0;
  BlockNames names_;
  bool taken_go_to_host_ = false;
  std::vector<std::uint32_t> taken_; ///< since `forget_taken`, for a backend that names blocks
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/prefix_reuse.inl.hpp" // IWYU pragma: keep
#endif

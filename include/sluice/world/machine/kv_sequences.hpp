// SPDX-License-Identifier: Apache-2.0
// KvSequences: the block tables of every sequence that has any blocks, by slot.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/records/record.hpp"
#include "sluice/state/memory/holding.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/world/machine/kv_store.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// The hidden states of a sequence that enter one layer.
struct HiddenTokens {
  std::int64_t kept = 0;     ///< how many of the oldest tokens have them
  std::int64_t wanted = 0;   ///< the same number once this iteration's launch of the layer is done
  std::int64_t reserved = 0; ///< device blocks that must still be taken for them
  bool stays = false;        ///< they stay on the device; otherwise they are on the host or on the way there
  /// All are given up before the next iteration: some did not reach the host, or the layer has read them for the last
  /// time.
  bool failed = false;
};

/// One sequence's block tables, tables[layer][block]; behind them, for each layer, the table of the hidden states that
/// enter the layer.
struct KvSequence {
  RequestId id{};
  bool present = false;
  bool preempted = false;       ///< in the previous iteration
  bool comes_whole = false;     ///< what it loads arrives before the first layer of its first iteration
  bool leaves_host = false;     ///< the host attended it until now, and the device does from this iteration on
  std::uint64_t generation = 0; ///< changes with every drop: transfers begun for an older one belong to no sequence
  std::int64_t computed = 0;    ///< tokens that have KV in either memory (or would have, if the layer is rebuilt)
  std::vector<BlockTable> tables;
  std::vector<std::int32_t> known; ///< by layer: how many of the oldest blocks LayerRows has addresses of
  /// By layer: new blocks from this one on take room for good. Those before take that of blocks which leave with the
  /// layer's end (`KvReach`), and count as if they did too. 0: all take room.
  std::vector<std::int32_t> stays_from;
  std::vector<HiddenTokens> hidden; ///< by layer
  bool has_hidden = false;          ///< some layer has hidden states, or will
  bool lost = false;                ///< a transfer failed for good, or there was no room
  bool released = false;            ///< its memory was given to other requests
  std::string_view reason{};
  bool recompute = false;             ///< lost because there was no room: the engine may compute it again
  KeptKv kept;                        ///< what the host tier gets of it
  Seconds pinned_until{0};            ///< its session's blocks stay there until then; 0: they may leave
  std::vector<std::uint32_t> numbers; ///< of its blocks, if the engine shares them on the device (ReleasedBlocks)
  std::size_t published = 0;          ///< how many of them, from the first on, others can find
  std::int64_t in_tier = 0;           ///< how many of its oldest blocks the host tier had when it joined, loaded or not

  // What `reconcile` found, and for which plan: layers in these sets need no look until the plan changes.
  Holding settled_for;
  std::int64_t planned_copies = 0; ///< how many blocks of each resident layer the plan wants on the host, too
  std::int64_t settled_copies = 0; ///< and with those for the host tier
  bool settled_computing = false;  ///< on the device
  LayerSet resident;               ///< all of their blocks are on the device to stay; a layer only appends to them
  LayerSet parked; ///< all of their blocks are only on the host, as the plan wants them, and none has moved since

  void look_again() { resident = parked = {}; }

  /// The table of the hidden states that enter a layer.
  [[nodiscard]] BlockTable& hidden_table(int layer) { return tables[hidden.size() + static_cast<std::size_t>(layer)]; }
  [[nodiscard]] const BlockTable& hidden_table(int layer) const {
    return tables[hidden.size() + static_cast<std::size_t>(layer)];
  }
};

/// What is left of a request that has ended: blocks on their way to the host tier.
struct DepartedSequence {
  std::uint64_t generation = 0; ///< the sequence's, by which transfers find the tables
  std::vector<RecordKey> keys;  ///< of its blocks from `first` on; all others have been released
  std::int64_t first = 0;
  std::vector<std::int32_t> tokens; ///< of these blocks
  std::vector<BlockTable> tables;   ///< by layer
  std::vector<RecordKey> known;     ///< of the blocks before `first`, which the tier had
  KeptKv kept;
  Seconds pinned_until{0};
  std::uint64_t salt = 0; ///< its request's
  bool lost = false;      ///< a transfer failed for good
  bool taken = false;     ///< of no request: a block that is overwritten
};

/// Names a block while other threads work on it; it may be gone by the time it is looked up.
struct BlockRef {
  static constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max(); ///< of blocks that no request has

  std::uint32_t slot = 0;
  std::int32_t layer = 0; ///< from L on: hidden states
  std::int32_t block = 0;
  std::uint64_t generation = 0;
};

/// All sequences, by the engine's slots. Not synchronised.
class KvSequences {
 public:
  KvSequences(KvStore& store, int layers) : store_(&store), layers_(static_cast<std::size_t>(layers)) {}

  /// The sequence of a slot; a new one if another request has taken the slot.
  KvSequence& of(Slot slot, RequestId id) {
    if (index(slot) >= sequences_.size()) sequences_.resize(index(slot) + 1);
    KvSequence& one = sequences_[index(slot)];
    if (!one.present || one.id != id) {
      drop(one);
      one.present = true;
      one.id = id;
      one.kept = {};
      one.pinned_until = Seconds{0};
      one.in_tier = 0;
      one.preempted = one.leaves_host = one.comes_whole = false;
      one.settled_for = {};
    }
    return one;
  }
  [[nodiscard]] const KvSequence* find(Slot slot) const { return has(slot) ? &sequences_[index(slot)] : nullptr; }
  [[nodiscard]] KvSequence* find(Slot slot) { return has(slot) ? &sequences_[index(slot)] : nullptr; }
  /// The table of a block; null if it is gone.
  [[nodiscard]] BlockTable* table(const BlockRef& ref) {
    if (ref.slot >= sequences_.size() || sequences_[ref.slot].generation != ref.generation) return nullptr;
    return &sequences_[ref.slot].tables[static_cast<std::size_t>(ref.layer)];
  }
  /// The same, also of a departed sequence: for blocks on their way to the host.
  [[nodiscard]] BlockTable* departing_table(const BlockRef& ref) {
    if (BlockTable* const live = table(ref)) return live;
    DepartedSequence* const gone = departed(ref);
    return gone == nullptr || static_cast<std::size_t>(ref.layer) >= layers_
               ? nullptr
               : &gone->tables[static_cast<std::size_t>(ref.layer)];
  }
  /// Whether only the host tier wants the host's copy of a block that stays on the device.
  [[nodiscard]] bool only_for_tier(const BlockRef& ref, const BlockRun& run) {
    return table(ref) != nullptr && static_cast<std::size_t>(ref.layer) < layers_ && !run.leaves() &&
           run.first >= sequences_[ref.slot].planned_copies;
  }
  /// Of the sequence in the slot.
  [[nodiscard]] std::uint64_t generation(Slot slot) const { return sequences_[index(slot)].generation; }
  [[nodiscard]] BlockRef ref(const KvSequence& sequence, int layer, std::int64_t block) const {
    return {static_cast<std::uint32_t>(&sequence - sequences_.data()), layer, static_cast<std::int32_t>(block),
            sequence.generation};
  }

  /// Frees all of the sequence's KV, in both memories.
  void drop(KvSequence& one) {
    for (BlockTable& table : one.tables)
      for (BlockRun& run : table.runs()) store_->step(run, BlockEvent::release);
    one.tables.assign(2 * layers_, {});
    one.known.assign(layers_, 0);
    one.stays_from.assign(layers_, 0);
    one.hidden.assign(layers_, {});
    one.has_hidden = false;
    one.computed = 0;
    one.numbers.clear();
    one.published = 0;
    if (one.lost && !one.released) --to_release_;
    one.lost = one.released = false;
    one.look_again();
    one.generation = ++generations_;
  }
  /// The sequence's KV is lost; its memory is released when nothing computes with it. `recompute`: there was no room.
  void lose(Slot slot, std::string_view reason, bool recompute = false) {
    KvSequence& one = *find(slot);
    if (one.lost) return;
    one.lost = true;
    one.reason = reason;
    one.recompute = recompute;
    one.look_again();
    ++to_release_;
  }
  /// The same for the sequence of a block, which may have departed; nothing if it is gone.
  void lose(const BlockRef& ref, std::string_view reason) {
    if (table(ref) != nullptr)
      lose(Slot{ref.slot}, reason);
    else if (DepartedSequence* const gone = departed(ref))
      gone->lost = true;
  }
  /// Whether a lost sequence still has its memory.
  [[nodiscard]] bool any_to_release() const { return to_release_ > 0; }
  /// Frees the memory of a lost sequence, which stays lost.
  void abandon(KvSequence& one) {
    drop(one);
    one.lost = one.released = true;
  }
  /// The request leaves the slot.
  void leave(KvSequence& one) {
    drop(one);
    one.present = false;
  }
  /// The request leaves the slot, but not its blocks of K and V.
  /// `keys`: of all its blocks that the tier has or gets, the latter from `first` on.
  void depart(KvSequence& one, const std::vector<RecordKey>& keys, std::int64_t first, std::vector<std::int32_t> tokens,
              std::uint64_t salt) {
    const auto known = keys.begin() + static_cast<std::ptrdiff_t>(first);
    DepartedSequence gone{one.generation,
                          {known, keys.end()},
                          first,
                          std::move(tokens),
                          {},
                          {keys.begin(), known},
                          one.kept,
                          one.pinned_until,
                          salt,
                          false};
    for (std::size_t layer = 0; layer < layers_; ++layer) gone.tables.push_back(std::exchange(one.tables[layer], {}));
    departed_.push_back(std::move(gone));
    leave(one);
  }
  /// Blocks that no request has go to the host, as those of one that has left.
  DepartedSequence& depart(const RecordKey& key, std::vector<std::int32_t> tokens, std::vector<BlockTable> tables) {
    DepartedSequence gone;
    gone.generation = ++generations_;
    gone.taken = true;
    gone.keys = {key};
    gone.tokens = std::move(tokens);
    gone.tables = std::move(tables);
    return departed_.emplace_back(std::move(gone));
  }
  [[nodiscard]] std::vector<DepartedSequence>& departed() { return departed_; }
  /// Slots that have ever had a sequence.
  [[nodiscard]] std::size_t slots() const { return sequences_.size(); }
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t i = 0; i < sequences_.size(); ++i)
      if (sequences_[i].present) visit(Slot{static_cast<std::uint32_t>(i)}, sequences_[i]);
  }

 private:
  [[nodiscard]] bool has(Slot slot) const { return index(slot) < sequences_.size() && sequences_[index(slot)].present; }
  [[nodiscard]] DepartedSequence* departed(const BlockRef& ref) {
    for (DepartedSequence& one : departed_)
      if (one.generation == ref.generation) return &one;
    return nullptr;
  }

  KvStore* store_;
  std::size_t layers_;
  std::vector<KvSequence> sequences_;
  std::vector<DepartedSequence> departed_;
  std::uint64_t generations_ = 0;
  int to_release_ = 0; ///< sequences that are lost and have their memory
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// KvSequences: the layer blocks of every sequence that has any, by slot.
#pragma once

#include "sluice/backend/machine/kv_store.hpp"
#include "sluice/core/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice {

/// The hidden states of a sequence that enter one layer.
struct HiddenTokens {
  std::int64_t kept = 0;     ///< so many of the oldest tokens have them, on the host or on their way there
  std::int64_t wanted = 0;   ///< and so many when the layer of the iteration under way has been launched
  std::int64_t reserved = 0; ///< device blocks that are still to be taken for it
  bool failed = false;       ///< some did not reach the host: all are given up before the next iteration
};

/// One sequence's KV, cells[layer][block]; and behind it, for each layer, the blocks of the hidden states that enter
/// the layer.
struct KvSequence {
  RequestId id{};
  bool present = false;
  bool preempted = false;       ///< at the last iteration
  std::uint64_t generation = 0; ///< changes with every drop: transfers begun for an older one belong to no sequence
  std::int64_t computed = 0;    ///< tokens that have KV, wherever it is (or would be, of layers that are rebuilt)
  std::vector<std::vector<KvCell>> cells;
  std::vector<HiddenTokens> hidden; ///< by layer
  bool lost = false;                ///< a transfer of it failed for good, or it found no room
  bool released = false;            ///< and its memory was given to other requests
  std::string_view reason{};

  /// The blocks of the hidden states that enter a layer.
  [[nodiscard]] std::vector<KvCell>& hidden_cells(int layer) {
    return cells[hidden.size() + static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] const std::vector<KvCell>& hidden_cells(int layer) const {
    return cells[hidden.size() + static_cast<std::size_t>(layer)];
  }
};

/// A cell that is named while other threads work on it, and may be gone by then.
struct CellRef {
  std::uint32_t slot = 0;
  std::int32_t layer = 0; ///< from L on those of hidden states
  std::int32_t block = 0;
  std::uint64_t generation = 0;
};

/// All sequences, by the engine's slots. Not synchronised.
class KvSequences {
 public:
  KvSequences(KvStore& store, int layers) : store_(&store), layers_(static_cast<std::size_t>(layers)) {}

  /// The sequence of a slot: a new one if the slot has passed to another request.
  KvSequence& of(Slot slot, RequestId id) {
    if (index(slot) >= sequences_.size()) sequences_.resize(index(slot) + 1);
    KvSequence& one = sequences_[index(slot)];
    if (!one.present || one.id != id) {
      drop(one);
      one.present = true;
      one.id = id;
    }
    return one;
  }
  [[nodiscard]] KvSequence* find(Slot slot) {
    if (index(slot) >= sequences_.size() || !sequences_[index(slot)].present) return nullptr;
    return &sequences_[index(slot)];
  }
  [[nodiscard]] KvCell* find(const CellRef& ref) {
    if (ref.slot >= sequences_.size()) return nullptr;
    KvSequence& one = sequences_[ref.slot];
    if (one.generation != ref.generation) return nullptr;
    auto& layer = one.cells[static_cast<std::size_t>(ref.layer)];
    return static_cast<std::size_t>(ref.block) < layer.size() ? &layer[static_cast<std::size_t>(ref.block)] : nullptr;
  }
  /// Of the sequence that has the slot.
  [[nodiscard]] std::uint64_t generation(Slot slot) const { return sequences_[index(slot)].generation; }
  [[nodiscard]] CellRef ref(const KvSequence& sequence, int layer, std::int64_t block) const {
    return {static_cast<std::uint32_t>(&sequence - sequences_.data()), layer, static_cast<std::int32_t>(block),
            sequence.generation};
  }

  /// Frees all of the sequence's KV, in both memories.
  void drop(KvSequence& one) {
    for (auto& layer : one.cells)
      for (KvCell& cell : layer) store_->release(cell);
    one.cells.assign(2 * layers_, {});
    one.hidden.assign(layers_, {});
    one.computed = 0;
    one.lost = one.released = false;
    one.generation = ++generations_;
  }
  /// Frees the memory of a lost sequence, which stays lost.
  void abandon(KvSequence& one) {
    drop(one);
    one.lost = one.released = true;
  }
  /// No request has the slot any more.
  void leave(KvSequence& one) {
    drop(one);
    one.present = false;
  }
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t i = 0; i < sequences_.size(); ++i)
      if (sequences_[i].present) visit(Slot{static_cast<std::uint32_t>(i)}, sequences_[i]);
  }

 private:
  KvStore* store_;
  std::size_t layers_;
  std::vector<KvSequence> sequences_;
  std::uint64_t generations_ = 0;
};

} // namespace sluice

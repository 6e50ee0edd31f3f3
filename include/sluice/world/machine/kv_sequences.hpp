// SPDX-License-Identifier: Apache-2.0
// KvSequences: the block tables of every sequence that has any blocks, by slot.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/world/machine/kv_store.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice {

/// The hidden states of a sequence that enter one layer.
struct HiddenTokens {
  std::int64_t kept = 0;     ///< how many of the oldest tokens have them, on the host or on the way there
  std::int64_t wanted = 0;   ///< the same number once this iteration's launch of the layer is done
  std::int64_t reserved = 0; ///< device blocks that must still be taken for them
  bool failed = false;       ///< some did not reach the host: all are given up before the next iteration
};

/// One sequence's block tables, tables[layer][block]; behind them, for each layer, the table of the hidden states that
/// enter the layer.
struct KvSequence {
  RequestId id{};
  bool present = false;
  bool preempted = false;       ///< in the previous iteration
  std::uint64_t generation = 0; ///< changes with every drop: transfers begun for an older one belong to no sequence
  std::int64_t computed = 0;    ///< tokens that have KV in either memory (or would have, if the layer is rebuilt)
  std::vector<std::vector<KvBlock>> tables;
  std::vector<HiddenTokens> hidden; ///< by layer
  bool lost = false;                ///< a transfer failed for good, or there was no room
  bool released = false;            ///< its memory was given to other requests
  std::string_view reason{};

  /// The table of the hidden states that enter a layer.
  [[nodiscard]] std::vector<KvBlock>& hidden_table(int layer) {
    return tables[hidden.size() + static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] const std::vector<KvBlock>& hidden_table(int layer) const {
    return tables[hidden.size() + static_cast<std::size_t>(layer)];
  }
};

/// Names a block while other threads work on it; it may be gone by the time it is looked up.
struct BlockRef {
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
    }
    return one;
  }
  [[nodiscard]] KvSequence* find(Slot slot) {
    if (index(slot) >= sequences_.size() || !sequences_[index(slot)].present) return nullptr;
    return &sequences_[index(slot)];
  }
  [[nodiscard]] KvBlock* find(const BlockRef& ref) {
    if (ref.slot >= sequences_.size()) return nullptr;
    KvSequence& one = sequences_[ref.slot];
    if (one.generation != ref.generation) return nullptr;
    auto& layer = one.tables[static_cast<std::size_t>(ref.layer)];
    return static_cast<std::size_t>(ref.block) < layer.size() ? &layer[static_cast<std::size_t>(ref.block)] : nullptr;
  }
  /// Of the sequence in the slot.
  [[nodiscard]] std::uint64_t generation(Slot slot) const { return sequences_[index(slot)].generation; }
  [[nodiscard]] BlockRef ref(const KvSequence& sequence, int layer, std::int64_t block) const {
    return {static_cast<std::uint32_t>(&sequence - sequences_.data()), layer, static_cast<std::int32_t>(block),
            sequence.generation};
  }

  /// Frees all of the sequence's KV, in both memories.
  void drop(KvSequence& one) {
    for (auto& layer : one.tables)
      for (KvBlock& entry : layer) store_->release(entry);
    one.tables.assign(2 * layers_, {});
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
  /// The request leaves the slot.
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

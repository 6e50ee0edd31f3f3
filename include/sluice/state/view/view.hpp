// SPDX-License-Identifier: Apache-2.0
// View: the snapshot of the engine's state that every deciding policy gets, and all that it may know.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/state/memory/ledger.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/state/view/request_row.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

// OutputLengths: how long the outputs of past requests were. A server knows nothing else about lengths in advance.

/// The output lengths of the last `window` requests that ended with all their tokens. The engine has one for all its
/// policies (`View::lengths`). Rejected: each policy learns by itself from the requests that its views no longer show.
/// It then learns again what another policy knows, and cannot tell an end from a cancellation.
///
/// After Gong et al., "Past-Future Scheduler for LLM Serving under SLA Guarantees" (ASPLOS 2025): a request that has
/// `generated` tokens is like the past ones whose outputs were longer.
class OutputLengths {
 public:
  static constexpr std::size_t window = 1000; ///< LightLLM's

  /// A request ended with this output. The oldest of `window` lengths is forgotten.
  void learn(Tokens output);

  /// How many lengths are known.
  [[nodiscard]] std::size_t known() const { return sorted_.size(); }
  /// The known lengths above `generated`, the shortest first.
  [[nodiscard]] std::span<const std::int64_t> longer_than(Tokens generated) const {
    return {std::upper_bound(sorted_.begin(), sorted_.end(), generated.count()), sorted_.end()};
  }
  /// Tokens still to come after `generated`, at least 1, if this request's length is the `quantile` (in [0, 1]) of the
  /// longer ones; `otherwise` if fewer than `enough` are known, or none is longer.
  [[nodiscard]] double remaining(Tokens generated, double quantile, std::size_t enough, double otherwise) const {
    const std::span<const std::int64_t> longer = longer_than(generated);
    if (known() < enough || longer.empty()) return otherwise;
    const auto at = static_cast<std::size_t>(quantile * static_cast<double>(longer.size()));
    return static_cast<double>(longer[std::min(at, longer.size() - 1)] - generated.count());
  }

 private:
  std::vector<std::int64_t> past_;   ///< in the order of their ends, from `oldest_` around
  std::vector<std::int64_t> sorted_; ///< the same, by length
  std::size_t oldest_ = 0;
};

/// The limits of a batch, the same for every policy.
struct Limits {
  int batch = 256;             ///< requests that run at once (vLLM: max_num_seqs)
  Tokens batch_tokens{2048};   ///< tokens computed in one iteration (vLLM: max_num_batched_tokens)
  Tokens block_tokens{16};     ///< tokens per block
  Tokens max_context{1 << 30}; ///< the longest accepted prompt + output
};

/// Sizes that do not change during a run.
struct Geometry {
  int layers = 0;                   ///< number of layers of the model
  Bytes layer_block_bytes{0};       ///< K and V of `block_tokens` tokens of one layer; with `groups`, one quantum
  Bytes layer_weight_bytes{0};      ///< weights of one layer; with `groups`, of one that may stream
  Bytes layer_hidden_bytes{0};      ///< hidden states of `block_tokens` tokens, as they enter one layer
  int segment_layers = 1;           ///< layer blocks that are contiguous in memory; set from the Layout
  const KvLayers* groups = nullptr; ///< of layers that keep different amounts of KV; it outlives the engine. By default
                                    ///< each layer keeps a layer block of every token block
  std::int64_t moved_units = 1;     ///< layer blocks in a token block of a layer that moves alone; set from `groups`

  /// Whether all layers keep the same.
  [[nodiscard]] constexpr bool alike() const { return groups == nullptr; }
  /// What layers keep; empty if they are alike.
  [[nodiscard]] constexpr const KvBlocks& kv() const { return alike() ? layers_alike : groups->blocks; }
  /// The layers that placements may move to the host: all of them if they are alike.
  [[nodiscard]] constexpr LayerSet movable() const {
    return alike() ? LayerSet::all(layers) : groups->blocks.movable();
  }
  /// The layers whose weights may stream, through slots of one size: all of them if they are alike. Intervals between
  /// streamed layers are counted over these.
  [[nodiscard]] constexpr LayerSet streamable() const { return alike() ? LayerSet::all(layers) : groups->streamable; }
  /// How many these are.
  [[nodiscard]] constexpr int streamable_layers() const { return alike() ? layers : groups->streamable.count(); }
  /// What a layer moves if it is fetched alone, in layer blocks: the K and V of a request's `blocks`.
  [[nodiscard]] constexpr LayerBlocks moved(TokenBlocks blocks) const {
    return LayerBlocks{blocks.count() * moved_units};
  }
  /// How far layers read a request's KV; no limits if they are alike.
  [[nodiscard]] constexpr const ReadLimits& reads() const { return alike() ? no_limits : groups->reads; }
  /// The room of a resident request's token blocks in all layers.
  [[nodiscard]] constexpr LayerBlocks kv_of(TokenBlocks blocks) const {
    return alike() ? across_layers(blocks, layers) : LayerBlocks{groups->blocks.room(blocks.count())};
  }
  /// The same with `resident` resident layers; with `groups`, all of them or none.
  [[nodiscard]] constexpr LayerBlocks kv_of(TokenBlocks blocks, int resident) const {
    if (alike()) return across_layers(blocks, resident);
    return resident > 0 ? kv_of(blocks) : LayerBlocks{0};
  }
  /// The same in some layers, of `groups`.
  [[nodiscard, gnu::noinline]] LayerBlocks kv_of(TokenBlocks blocks, LayerSet of) const {
    return LayerBlocks{kv().room(0, blocks.count(), blocks.count(), of)};
  }
  /// The most token blocks of a resident request that take at most `room`.
  [[nodiscard]] TokenBlocks blocks_within(LayerBlocks room) const {
    if (alike()) return TokenBlocks{room.count() / layers};
    std::int64_t fits = 0, fails = std::int64_t{1} << 32; // in blocks: beyond any context
    while (fails - fits > 1) {
      const std::int64_t middle = fits + (fails - fits) / 2;
      (kv_of(TokenBlocks{middle}) <= room ? fits : fails) = middle;
    }
    return TokenBlocks{fits};
  }
  /// The room of `requests` resident requests that have `blocks` token blocks in all. Where layers differ: if each has
  /// the mean, rounded up, which takes the most, since a request's room grows ever more slowly.
  [[nodiscard]] double kv_of_all(double blocks, std::size_t requests) const {
    if (alike()) return blocks * layers;
    const TokenBlocks each{static_cast<std::int64_t>(math::ceil(blocks / static_cast<double>(requests)))};
    return static_cast<double>(requests) * static_cast<double>(kv_of(each).count());
  }
  /// The size of hidden states relative to K and V, for room and transfers.
  [[nodiscard]] constexpr HiddenSize hidden_size() const { return {layer_hidden_bytes, layer_block_bytes}; }

  /// The weights of a plan in the evaluator's unit.
  [[nodiscard]] WeightStream stream_of(const WeightsPlan& plan) const {
    if (plan.streamed.empty()) return {};
    const double blocks =
        plan.share * static_cast<double>(layer_weight_bytes.count()) / static_cast<double>(layer_block_bytes.count());
    return {plan.streamed, blocks, plan.slots};
  }
  /// Whole KV blocks in the memory of `parts` layers' weights.
  [[nodiscard]] LayerBlocks blocks_in(double parts) const {
    return LayerBlocks{static_cast<std::int64_t>(parts * static_cast<double>(layer_weight_bytes.count()) /
                                                 static_cast<double>(layer_block_bytes.count()))};
  }
};

/// Sums over all requests so far, those that have ended too.
struct ServedSums {
  std::int64_t tokens = 0;     ///< tokens generated
  std::int64_t started = 0;    ///< requests with a first token
  std::int64_t late_first = 0; ///< those among them whose first token was generated after its SLO
  std::int64_t missed = 0;     ///< TBT deadlines missed by delivered tokens: the sum of `RequestRow::missed`
};

/// One snapshot. `now` and the rows are for the time at which the decision applies: the present, or with `OneStepAhead`
/// the predicted end of the running iteration.
struct View {
  Seconds now{0};        ///< time the decision applies to, on the run's clock
  std::int64_t step = 0; ///< iterations that have run
  Limits limits;         ///< the limits of a batch
  Geometry geometry;     ///< sizes of the model and of a block

  std::span<const RequestRow> rows; ///< by slot; only those that the lists below name are valid
  std::span<const Slot> running;    ///< in the order in which they joined
  std::span<const Slot> preempted;  ///< by arrival
  std::int64_t waiting = 0;         ///< how many requests wait; Admission keeps their order

  const Ledger* ledger = nullptr;         ///< both memories: capacity, used, peak, in layer blocks
  const Plan* plan = nullptr;             ///< the plan in force
  std::int64_t finished = 0;              ///< requests ended so far
  const ServedSums* served = nullptr;     ///< what all requests have got so far
  const OutputLengths* lengths = nullptr; ///< of requests that ended: what a server can know about lengths
  std::int64_t last_finish_step = -1; ///< a state, not an event: "a request has finished" survives a discarded decision

  /// The request in a slot that one of this view's lists, or a claim, names.
  [[nodiscard]] const RequestRow& row(Slot slot) const { return rows[index(slot)]; }
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/state/view/view.inl.hpp" // IWYU pragma: keep
#endif

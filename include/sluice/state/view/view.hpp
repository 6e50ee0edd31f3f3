// SPDX-License-Identifier: Apache-2.0
// View: the snapshot of the engine's state that every deciding policy gets, and all that it may know.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/memory/ledger.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/state/plan/weight_stream.hpp"
#include "sluice/state/view/output_lengths.hpp"
#include "sluice/state/view/request_row.hpp"

#include <cstdint>
#include <span>

namespace sluice {

/// The limits of a batch, the same for every policy.
struct Limits {
  int batch = 256;             ///< requests that run at once (vLLM: max_num_seqs)
  Tokens batch_tokens{2048};   ///< tokens computed in one iteration (vLLM: max_num_batched_tokens)
  Tokens block_tokens{16};     ///< tokens per block
  Tokens max_context{1 << 30}; ///< the longest accepted prompt + output
};

/// Sizes that do not change during a run.
struct Geometry {
  int layers = 0;              ///< number of layers of the model
  Bytes layer_block_bytes{0};  ///< K and V of `block_tokens` tokens of one layer
  Bytes layer_weight_bytes{0}; ///< weights of one layer
  Bytes layer_hidden_bytes{0}; ///< hidden states of `block_tokens` tokens, as they enter one layer
  int segment_layers = 1;      ///< layers of a token block that are contiguous in memory; set from the Layout

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

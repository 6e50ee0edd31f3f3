// SPDX-License-Identifier: Apache-2.0
// ChosenIteration: the observer that keeps the layer timeline of one iteration: the one that stalled longest, or a
// given one.
#pragma once

#include "sluice/report/observer/observer.hpp"
#include "sluice/report/observer/timeline_sink.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// The places of one request's layers.
struct PlacedRequest {
  RequestId id{};
  LayerSet host;
  LayerSet nowhere;
};

/// One iteration in full.
struct RecordedIteration {
  std::int64_t step = -1;
  double start_s = 0; ///< on the run's clock
  double duration_s = 0;
  double stall_s = 0;
  double planning_s = 0;
  std::int64_t batch = 0;
  std::int64_t decodes = 0;
  std::int64_t tokens = 0;
  int layers = 0;
  double device_used_blocks = 0;
  double device_capacity_blocks = 0;
  std::vector<LayerSlice> layer_slices;
  std::vector<TransferSlice> transfers;
  std::vector<PlacedRequest> placed;
  std::vector<RequestId> stream_owners; ///< the request of each stream; streams beyond the list carry weights
  Binding binding = Binding::none;

  [[nodiscard]] bool empty() const { return step < 0; }
  /// Returns the request that the transfer is for; null if it moves weights, or blocks of all requests together.
  [[nodiscard]] const RequestId* owner_of(const TransferSlice& transfer) const {
    const auto stream = static_cast<std::size_t>(transfer.stream);
    return transfer.stream >= 0 && stream < stream_owners.size() ? &stream_owners[stream] : nullptr;
  }
  /// Returns whether the transfer moves only weights.
  [[nodiscard]] bool of_weights(const TransferSlice& transfer) const {
    return owner_of(transfer) == nullptr && (transfer.stream >= 0 || stream_owners.empty());
  }
};

namespace detail {

/// Overwrites `into` with the iteration and reuses its vectors' memory. The record's clock starts before the wait for
/// the planner, the evaluator's clock starts after it.
inline void record_iteration(const IterationRecord& record, const TimelineReplay& replay, RecordedIteration& into) {
  into.layer_slices.clear();
  into.transfers.clear();
  into.step = record.step;
  into.start_s = record.start.count();
  into.duration_s = record.duration.count();
  into.stall_s = record.stall.count();
  into.planning_s = record.planning.count();
  into.batch = static_cast<std::int64_t>(record.batch.size());
  into.decodes = record.decodes;
  into.tokens = record.tokens.count();
  into.layers = 0;
  into.device_used_blocks = static_cast<double>(record.device_used.count());
  into.device_capacity_blocks = static_cast<double>(record.device_capacity.count());
  into.placed.clear();
  for (const Claim& claim : record.batch)
    if (index(claim.slot) < record.rows.size()) {
      const RequestRow& row = record.rows[index(claim.slot)];
      into.placed.push_back({row.id, row.holding.host, row.holding.nowhere});
    }
  into.stream_owners.clear();
  for (const Slot slot : record.stream_slots) into.stream_owners.push_back(record.rows[index(slot)].id);
  into.binding = record.plan != nullptr ? record.plan->binding : Binding::none;
  replay({into.layer_slices, into.transfers});
  for (LayerSlice& layer : into.layer_slices) {
    into.layers = std::max(into.layers, layer.layer + 1);
    layer.start_s += into.planning_s;
    layer.end_s += into.planning_s;
  }
  for (TransferSlice& transfer : into.transfers) {
    transfer.start_s += into.planning_s;
    transfer.end_s += into.planning_s;
  }
}

} // namespace detail

/// Keeps one iteration's layers, transfers and stalls.
///
/// With `step` < 0, it keeps the iteration with the longest stall, within 2 %: stalls often grow slightly in each step,
/// as the KV does, and each new longest stall costs a replay. If no iteration stalls, it keeps the first one that
/// decodes. With `step` >= 0, it keeps the last iteration up to that step.
struct ChosenIteration {
  using role = roles::Observer;
  using hears = Events<events::Iterated>;
  static constexpr bool wants_timeline = true;

  std::int64_t step = -1;

  struct State {
    RecordedIteration kept;
  };

  void on(State& state, const events::Iterated& event) const {
    if (wanted(state.kept, event.record)) detail::record_iteration(event.record, event.replay, state.kept);
  }

 private:
  [[nodiscard]] bool wanted(const RecordedIteration& kept, const IterationRecord& record) const {
    // Among the iterations before the given step, only the first and the last can matter. The last one is not known in
    // advance, so the iterations within reach of the step are kept.
    if (step >= 0) return record.step == step || (record.step < step && (kept.empty() || step - record.step < 64));
    if (kept.empty()) return true;
    if (kept.decodes == 0 && kept.stall_s <= 0 && record.decodes > 0) return true;
    return record.stall.count() > 1.02 * kept.stall_s && record.stall.count() > 1e-12;
  }
};

static_assert(explain<ChosenIteration>());

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// ChosenIteration: the observer that keeps the layer timeline of one iteration: the one that stalled longest, or a
// given one.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/observer.hpp"
#include "sluice/report/observer/timeline_sink.hpp"

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
  [[nodiscard]] const RequestId* owner_of(const TransferSlice& transfer) const;
  /// Returns whether the transfer moves only weights.
  [[nodiscard]] bool of_weights(const TransferSlice& transfer) const;
};

namespace detail {

/// Overwrites `into` with the iteration and reuses its vectors' memory. The record's clock starts before the wait for
/// the planner, the evaluator's clock starts after it.
void record_iteration(const IterationRecord& record, const TimelineReplay& replay, RecordedIteration& into);

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

  void on(State& state, const events::Iterated& event) const;

 private:
  [[nodiscard]] bool wanted(const RecordedIteration& kept, const IterationRecord& record) const;
};

static_assert(explain<ChosenIteration>());

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/chosen_iteration.inl.hpp"
#endif

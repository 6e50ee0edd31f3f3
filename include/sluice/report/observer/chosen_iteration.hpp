// SPDX-License-Identifier: Apache-2.0
// ChosenIteration: the observer that keeps the layer timeline of one iteration: the one that stalled longest, or a
// given one.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/report/observer/event.hpp"
#include "sluice/report/observer/observer.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

// TimelineSink: a sink for the evaluator's timeline that stores every layer's computation and every transfer.

/// One layer's computation. The compute stream waited for `stall_s` immediately before `start_s`. All times in this
/// file are seconds from the iteration's start.
struct LayerSlice {
  int layer = 0;
  double start_s = 0;
  double end_s = 0;
  double stall_s = 0;
  StallCause cause = StallCause::none;
};

/// One layer's transfer for one stream, or for all (stream -1). Layers numbered L and above belong to the next token.
struct TransferSlice {
  int stream = -1;
  int layer = 0;
  double start_s = 0;
  double end_s = 0;
};

/// The target of a TimelineReplay.
struct TimelineSink {
  static constexpr bool enabled = true;
  std::vector<LayerSlice>& layers;
  std::vector<TransferSlice>& transfers;

  void layer(int layer, double start_s, double end_s, double stall_s, StallCause cause) {
    layers.push_back({layer, start_s, end_s, stall_s, cause});
  }
  void transfer(int stream, int layer, double start_s, double end_s) {
    transfers.push_back({stream, layer, start_s, end_s});
  }
};

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

// SPDX-License-Identifier: Apache-2.0
// steady_step: how long a decode takes once it repeats, while the same layers of all requests cross the link.
#pragma once

#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/transfer/evaluate_link.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice {

/// What a repeated iteration computes and moves.
struct SteadyLoad {
  StepTime time;          ///< of the computation
  int layers = 1;         ///< the model's
  BlockLink link;         ///< in the evaluator's unit
  LayerStream stream;     ///< one stream for all requests; no layers: nothing is away
  WeightStream weights{}; ///< streamed with any KV
  double room_blocks = 0; ///< device blocks for prefetches
};

/// Memory for evaluations by `Transfer`.
template <class Transfer>
struct SteadyScratch {
  typename Transfer::State link;
  LayerArray compute{};
};

/// The time of one of these iterations once they repeat: the blocks prefetched for the first one have been used by
/// then. One stream stands for all requests: each layer waits for the sum of its transfers however the link is divided.
template <class Transfer>
[[nodiscard]] StepCost steady_step(const SteadyLoad& load, SteadyScratch<Transfer>& scratch) {
  constexpr int repeats_after = 4;
  if (load.stream.layers.empty() && load.weights.empty()) return {load.time.total(load.layers).count(), 0};
  std::fill_n(scratch.compute.begin(), load.layers, load.time.layer.count());
  Pipeline pipeline;
  pipeline.compute_s = {scratch.compute.data(), static_cast<std::size_t>(load.layers)};
  pipeline.before_s = load.time.before.count();
  pipeline.after_s = load.time.after.count();
  pipeline.on_link = load.time.on_link;
  pipeline.link = load.link;
  if (!load.stream.layers.empty()) pipeline.streams = {&load.stream, 1};
  pipeline.weights = load.weights;
  pipeline.room_blocks = load.room_blocks;
  scratch.link.clear();
  StepCost cost;
  for (int token = 0; token < repeats_after; ++token) cost = evaluate_link<Transfer>(pipeline, scratch.link);
  return cost;
}

} // namespace sluice

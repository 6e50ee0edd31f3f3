// SPDX-License-Identifier: Apache-2.0
// SteadyTrial: tries to move the same layers of every request in each iteration, for as long as that repeats.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/placement/placement.hpp"
#include "sluice/policy/transfer/evaluate_link.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

// steady_step: how long a decode takes once it repeats, while the same layers of all requests cross the link.

/// What a repeated iteration computes and moves.
struct SteadyLoad {
  StepTime time;                      ///< of the computation
  int layers = 1;                     ///< the model's
  BlockLink link;                     ///< in the evaluator's unit
  LayerStream stream;                 ///< one stream for all requests; no layers: nothing is away
  WeightStream weights{};             ///< streamed with any KV
  double room_blocks = 0;             ///< device blocks for prefetches
  std::span<const double> layers_s{}; ///< each layer's own time; empty: all take `time.layer`
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
  Pipeline pipeline;
  pipeline.compute_s = load.layers_s;
  if (load.layers_s.empty()) {
    std::fill_n(scratch.compute.begin(), load.layers, load.time.layer.count());
    pipeline.compute_s = {scratch.compute.data(), static_cast<std::size_t>(load.layers)};
  }
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

/// What requests that give up the same layers move and hold.
struct SteadyUse {
  LayerStream stream; ///< in every iteration; one for all requests
  Footprint room;     ///< their blocks in both memories, without what is in flight
};

/// The questions of a placement that offloads the same layers of every request, and may write them back: the memory
/// that takes, and how long a decode takes once it repeats. (UniformTrial asks for memory alone; StepTrial judges
/// requests one by one, from a cold start.)
template <class Transfer>
class SteadyTrial {
 public:
  /// Of the first `count` claims, each `steps` tokens later. Always inlined: as a call it took a decision of Pie's with
  /// 256 requests 8 % longer.
  template <class Task>
  [[nodiscard, gnu::always_inline]] static SteadyUse use(const Task& task, std::size_t count, const Holding& holding,
                                                         std::int64_t steps) {
    TokenBlocks all{0};
    Footprint room;
    for (const Claim& claim : task.claims.first(count)) {
      const TokenBlocks blocks = task.blocks(claim, steps);
      all += blocks;
      room = room + task.footprint_of(holding, blocks);
    }
    const auto moved = static_cast<double>(task.view.geometry.moved(all).count());
    return {{holding.host, moved, holding.written_back ? holding.host : LayerSet{}}, room};
  }

  /// What the rule needs in flight for `stream`.
  template <class Task>
  [[nodiscard]] static LayerBlocks in_flight(const Task& task, const LayerStream& stream) {
    if (stream.layers.empty()) return LayerBlocks{0};
    return LayerBlocks{
        static_cast<std::int64_t>(math::ceil(detail::in_flight_blocks<Transfer>(stream, task.layers())))};
  }

  /// How long the link is busy with an iteration's transfers, whatever their schedule, in seconds.
  template <class Task>
  [[nodiscard]] static double link_s(const Task& task, const LayerStream& stream) {
    const BlockLink link = task.block_link();
    const double in_s =
        (stream.blocks * stream.layers.count() + task.weights.blocks * task.weights.layers.count()) / link.blocks_per_s;
    const double back_s =
        stream.blocks * stream.written_back.count() / (link.each_way() ? link.out_blocks_per_s : link.blocks_per_s);
    const double lost_s = link.mix_loss / (1 - link.mix_loss) * std::min(in_s, back_s); // of each lane
    return link.each_way() ? std::max(in_s, back_s) + lost_s : in_s + back_s + 2 * lost_s;
  }

  /// The time of a decode of the first `count` claims once it repeats, with the room that they leave for prefetches.
  template <class Task>
  [[nodiscard]] StepCost step(const Task& task, std::size_t count, const SteadyUse& use) {
    const LayerBlocks room = task.device_budget - use.room.device;
    const Work decode = task.steady_decode(count);
    SteadyLoad load{task.cost.step(decode),           task.layers(), task.block_link(), use.stream, task.weights,
                    static_cast<double>(room.count())};
    LayerArray layers_s;
    if constexpr (TimesLayers<typename Task::cost_type>) {
      load.layers_s = {layers_s.data(), static_cast<std::size_t>(task.layers())};
      own_layer_times(task.cost, decode, load.time.layer, {layers_s.data(), load.layers_s.size()});
    }
    return steady_step<Transfer>(load, scratch_);
  }

 private:
  SteadyScratch<Transfer> scratch_;
};

} // namespace sluice

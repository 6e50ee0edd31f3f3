// SPDX-License-Identifier: Apache-2.0
// SteadyTrial: tries to move the same layers of every request in each iteration, for as long as that repeats.
#pragma once

#include "sluice/policy/placement/placement.hpp"
#include "sluice/policy/transfer/steady_step.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace sluice {

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
  /// Of the first `count` claims, each `steps` tokens later.
  template <class Task>
  [[nodiscard]] static SteadyUse use(const Task& task, std::size_t count, const Holding& holding, std::int64_t steps) {
    std::int64_t all = 0;
    Footprint room;
    for (const Claim& claim : task.claims.first(count)) {
      const TokenBlocks blocks = task.blocks(claim, steps);
      all += blocks.count();
      room = room + task.footprint_of(holding, blocks);
    }
    return {{holding.host, static_cast<double>(all), holding.written_back ? holding.host : LayerSet{}}, room};
  }

  /// What the rule needs in flight for `stream`.
  template <class Task>
  [[nodiscard]] static LayerBlocks in_flight(const Task& task, const LayerStream& stream) {
    if (stream.layers.empty()) return LayerBlocks{0};
    return LayerBlocks{static_cast<std::int64_t>(std::ceil(detail::in_flight_blocks<Transfer>(stream, task.layers())))};
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
    return steady_step<Transfer>({task.cost.step(task.steady_decode(count)), task.layers(), task.block_link(),
                                  use.stream, task.weights, static_cast<double>(room.count())},
                                 scratch_);
  }

 private:
  SteadyScratch<Transfer> scratch_;
};

} // namespace sluice

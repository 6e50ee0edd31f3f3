// SPDX-License-Identifier: Apache-2.0
// UniformTrial: one holding for every request of a batch, tried against memory and time.
#pragma once

#include "sluice/placement/planning_instance.hpp"
#include "sluice/placement/solver/placement_evaluator.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace sluice {

/// What the batch-uniform placements share: the same layers of every request are offloaded.
template <class Transfer>
struct UniformTrial {
  // Not a member's initialiser: a concept that asks whether there is a constructor would then compile the rule.
  UniformTrial() : evaluator{transfer_rule_of<Transfer>} {}

  Instance instance;
  PlacementEvaluator evaluator;
  std::vector<LayerSet> offloaded; ///< scratch: the same set, once per request

  /// Whether the first `count` claims fit when each holds `blocks_of(claim)` blocks. Returns the room in flight, or a
  /// negative number if they do not.
  template <class Task, class BlocksOf>
  double in_flight_if_fits(const Task& task, std::size_t count, LayerSet set, BlocksOf&& blocks_of) {
    LayerBlocks resident{0}, host{0};
    double load = 0;
    streams_.clear();
    const Holding holding{all_tokens, set, {}};
    for (const Claim& claim : task.claims.first(count)) {
      const TokenBlocks blocks = blocks_of(claim);
      const Footprint room = task.footprint_of(holding, blocks);
      resident += room.device;
      host += room.host;
      load += static_cast<double>(blocks.count());
      if (!set.empty()) streams_.push_back({set, static_cast<double>(blocks.count())});
    }
    LayerArray loads{};
    set.for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] = load; });
    const double held = Transfer::held_blocks({loads.data(), static_cast<std::size_t>(task.layers())}, streams_);
    const bool fits = static_cast<double>(resident.count()) + held <= static_cast<double>(task.device_budget.count()) &&
                      host <= task.host_budget;
    return fits ? held : -1;
  }

  /// The predicted step with every request's `set` offloaded, and how long that holds; `instance` has been filled for
  /// `count` requests.
  PlacementCost cost(LayerSet set) {
    offloaded.assign(instance.requests.size(), set);
    return evaluator.cost(instance, offloaded);
  }
  WindowCheck hold(const PlacementCost& first) { return evaluator.hold(instance, offloaded, first); }

 private:
  std::vector<LayerStream> streams_;
};

/// Writes a rule for every request: those in the plan, and those that come later.
inline void set_uniform(Plan& plan, LayerSet set, double in_flight) {
  plan.requests.clear();
  plan.unseen = Holding{all_tokens, set, {}};
  plan.covers_unseen = true;
  plan.in_flight = LayerBlocks{static_cast<std::int64_t>(std::ceil(in_flight))};
}

} // namespace sluice

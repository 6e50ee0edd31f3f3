// SPDX-License-Identifier: Apache-2.0
// JointInstance: a planning problem in which KV is kept, fetched or rebuilt, and weights share the link with it.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/math.hpp"
#include "sluice/state/plan/instance.hpp"
#include "sluice/state/plan/plan.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace sluice {

/// What happens to a request's KV, by layer; layers in neither set are kept on the device.
struct KvWays {
  LayerSet fetched; ///< on the host, and moved to the device in every iteration
  LayerSet rebuilt; ///< nowhere, and computed again in every iteration

  friend bool operator==(const KvWays&, const KvWays&) = default;
};

/// What it costs to rebuild one request's K and V. A rebuilt layer projects them from its hidden states. Where the
/// host keeps those (HCache, Gao et al., EuroSys 2025; KVPR), they are fetched. Elsewhere the request's tokens pass
/// through all layers below, down to one with states or to the embeddings (`passed_layers`).
struct RebuildCost {
  LayerSet states;         ///< layers whose hidden states the host keeps; layer 0 needs none
  double state_blocks = 0; ///< layer blocks of one layer's states, >= 0
  double project_s = 0;    ///< added to each rebuilt layer's compute time, >= 0
  double pass_s = 0;       ///< added to the compute time of each layer that the tokens pass, >= 0
};

/// One of the amounts of weights that may stream.
struct WeightLevel {
  WeightStream weights;
  double gained_blocks = 0; ///< added to `Instance::device_blocks`: weights that leave, less their slots
};

/// An `Instance` with two more kinds of choices: which KV is rebuilt, and how much of the weights streams. Without
/// them a JointPlanner makes the Planner's plans.
struct JointInstance {
  Instance base;
  std::vector<RebuildCost> rebuilds; ///< one per request; empty: nothing is rebuilt
  /// Layers of a request's rebuilt KV that are on the device at once: one computes while the next one is rebuilt.
  int held_rebuilt = 2;
  std::vector<WeightLevel> levels; ///< instead of `base.weights`; empty: only those

  [[nodiscard]] bool has_new_ways() const { return !rebuilds.empty() || !levels.empty(); }
  [[nodiscard]] std::size_t level_count() const { return levels.empty() ? 1 : levels.size(); }
  [[nodiscard]] const WeightStream& weights(std::size_t level) const {
    return levels.empty() ? base.weights : levels[level].weights;
  }
  /// Blocks for KV in the layers that may be offloaded, resident and in flight.
  [[nodiscard]] double budget(std::size_t level) const {
    return base.movable_budget() + (levels.empty() ? 0 : levels[level].gained_blocks);
  }
};

/// What a JointPlanner found. `solution` is about the whole plan, and its `offloaded` are the fetched layers.
struct JointSolution {
  Solution solution;
  std::vector<KvWays> ways; ///< one per request
  std::size_t level = 0;    ///< position in `JointInstance::levels`
};

/// Checks an instance. With new ways, a plan must hold for one cold iteration of constant KV without an SLO: a caller
/// that plans for a window gives the sizes at its end.
inline Status check(const JointInstance& joint) {
  const auto bad = [](const char* where, const std::string& what, const char* expected) {
    return Status{Error{ErrorCode::bad_input, where, what, expected}};
  };
  if (Status base = check(joint.base); !base.ok()) return base;
  if (!joint.has_new_ways()) return {};
  const Instance& base = joint.base;
  if (base.iterations != 1 || base.window_max != 1 || base.has_slo())
    return bad("iterations, window, slo_s", "joint plans are for one iteration", "1, [1, 1] and none");
  if (!joint.rebuilds.empty() && joint.rebuilds.size() != base.requests.size())
    return bad("rebuilds", "there are " + std::to_string(joint.rebuilds.size()), "one per request, or none");
  if (joint.held_rebuilt < 1) return bad("held_rebuilt", "no rebuilt layer is held", "at least 1");
  const auto is_amount = [](double value) { return math::isfinite(value) && value >= 0; };
  for (std::size_t r = 0; r < joint.rebuilds.size(); ++r) {
    const RebuildCost& cost = joint.rebuilds[r];
    const std::string request = "request " + std::to_string(r);
    if (!is_amount(cost.state_blocks) || !is_amount(cost.project_s) || !is_amount(cost.pass_s))
      return bad("rebuilds", request + " has a cost that is negative or not finite", "a number of at least 0");
    if (cost.states.highest() >= base.layers())
      return bad("rebuilds", request + " has states of layer " + std::to_string(cost.states.highest()),
                 "layers of the model");
  }
  Instance one = base;
  for (std::size_t i = 0; i < joint.levels.size(); ++i) {
    one.weights = joint.levels[i].weights;
    const std::string level = "level " + std::to_string(i);
    if (const Status status = check(one); !status.ok())
      return bad("levels", level + ": " + status.error().what, status.error().expected.c_str());
    if (!math::isfinite(joint.levels[i].gained_blocks))
      return bad("levels", level + " gains an amount that is not finite", "a finite number");
  }
  return {};
}

} // namespace sluice

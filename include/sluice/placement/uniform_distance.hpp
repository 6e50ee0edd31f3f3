// SPDX-License-Identifier: Apache-2.0
// UniformDistance: the best single distance for the whole batch (OrbitFlow's "Batch-Uniform" ablation).
#pragma once

#include "sluice/placement/uniform_trial.hpp"
#include "sluice/plan/space.hpp"

#include <limits>
#include <vector>

namespace sluice {

/// Of the members of the distance space, one for all requests, the one with the least predicted step time under memory
/// and SLO over the window. This is OrbitFlow without its per-request distances (Fig. 14a).
template <SloBound Bound = SloBound::enforced>
struct BasicUniformDistance {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {
    UniformTrial<Transfer> trial;
    std::vector<LayerSet> space;
  };

  PlanningOptions options{};

  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers), {}}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    Binding binding = Binding::device_memory;
    const auto feasible = [&](std::size_t count) { return best(task, state, count, plan, binding); };
    if (task.required > 0 && !feasible(task.required)) return Verdict::infeasible(binding);
    const std::size_t joined = longest_prefix(task.required, task.claims.size(), feasible);
    feasible(task.required + joined);
    return {true, joined, plan.binding};
  }

 private:
  template <class Task, class S>
  bool best(const Task& task, S& state, std::size_t count, Plan& plan, Binding& binding) const {
    planning_instance<Bound>(task, count, options, state.trial.instance);
    DistanceSpace::candidates(task.layers(), state.space);
    plan.requests.clear();
    double least_s = std::numeric_limits<double>::infinity();
    LayerSet chosen;
    for (const LayerSet set : state.space) {
      ++plan.effort;
      const PlacementCost cost = state.trial.cost(set);
      if (!cost.fits || cost.step.step_s >= least_s) continue;
      if (host_blocks(task, count, [set](std::size_t) { return Holding{all_tokens, set, {}}; }) > task.host_budget) {
        binding = Binding::host_memory;
        continue;
      }
      const WindowCheck check = state.trial.hold(cost);
      if (check.window == 0) {
        binding = check.binding;
        continue;
      }
      least_s = cost.step.step_s;
      chosen = set;
      plan.predicted_step = plan.lower_bound = Seconds{cost.step.step_s};
      plan.in_flight = LayerBlocks{static_cast<std::int64_t>(std::ceil(cost.buffer_blocks))};
      plan.expires_at_step = task.view.step + check.window;
      plan.binding = set.empty() ? Binding::none : cost.step.stall_s > 0 ? Binding::link : Binding::device_memory;
    }
    if (least_s == std::numeric_limits<double>::infinity()) return false;
    plan.covers_unseen = false;
    for (const Claim& claim : task.claims.first(count))
      plan.requests.push_back({claim.slot, Holding{all_tokens, chosen, {}}});
    return true;
  }
};

using UniformDistance = BasicUniformDistance<>;

static_assert(Placement<UniformDistance>);

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// SloUniform: the smallest uniform distance that meets the SLO by the profile (SLO-aware offloading).
#pragma once

#include "sluice/placement/uniform_trial.hpp"
#include "sluice/plan/space.hpp"

#include <limits>
#include <vector>

namespace sluice {

/// Of the uniform distances that fit, the smallest (most host memory) whose predicted step meets the tightest SLO of
/// the batch; where none does, the one with the shortest predicted step. (OrbitFlow, section 5.1, baseline 4;
/// Select-N's goal, on KV.)
struct SloUniform {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {
    UniformTrial<Transfer> trial;
    std::vector<LayerSet> space;
  };

  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers), {}}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    const auto feasible = [&](std::size_t count) { return choose(task, state, count, plan); };
    if (task.required > 0 && !feasible(task.required)) return Verdict::infeasible(Binding::device_memory);
    const std::size_t joined = longest_prefix(task.required, task.claims.size(), feasible);
    feasible(task.required + joined);
    return {true, joined, plan.binding};
  }

 private:
  template <class Task, class S>
  static bool choose(const Task& task, S& state, std::size_t count, Plan& plan) {
    planning_instance(task, count, PlanningOptions{}, state.trial.instance);
    DistanceSpace::candidates(task.layers(), state.space);
    double slo_s = std::numeric_limits<double>::infinity();
    for (const InstanceRequest& request : state.trial.instance.requests) slo_s = std::min(slo_s, request.slo_s);
    const auto blocks_of = [&task](const Claim& claim) { return task.blocks(claim); };
    bool found = false;
    double best_s = std::numeric_limits<double>::infinity();
    LayerSet chosen;
    double in_flight = 0;
    for (auto set = state.space.rbegin(); set != state.space.rend(); ++set) { // most layers away first
      ++plan.effort;
      const double held = state.trial.in_flight_if_fits(task, count, *set, blocks_of);
      if (held < 0) continue;
      const double step_s = state.trial.cost(*set).step.step_s;
      const bool meets = step_s <= slo_s;
      if (!meets && found && step_s >= best_s) continue;
      found = true;
      best_s = step_s;
      chosen = *set;
      in_flight = held;
      if (meets) break;
    }
    if (!found) return false;
    set_uniform(plan, chosen, in_flight);
    plan.covers_unseen = false;
    for (const Claim& claim : task.claims.first(count)) plan.requests.push_back({claim.slot, plan.unseen});
    plan.predicted_step = plan.lower_bound = Seconds{best_s};
    plan.binding = best_s <= slo_s ? Binding::slo : Binding::link;
    return true;
  }
};

static_assert(Placement<SloUniform>);

} // namespace sluice

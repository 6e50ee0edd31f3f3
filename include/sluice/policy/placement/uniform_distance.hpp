// SPDX-License-Identifier: Apache-2.0
// UniformDistance: the best single distance for the whole batch (OrbitFlow's "Batch-Uniform" ablation).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/placement/step_trial.hpp"
#include "sluice/state/plan/space.hpp"

#include <cstddef>
#include <vector>

namespace sluice {

/// The one member of the distance space, the same for all requests, with the shortest predicted step within memory and
/// SLO over the window: OrbitFlow without per-request distances (Fig. 14a).
template <SloBound Bound = SloBound::enforced>
struct BasicUniformDistance {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  static constexpr bool unequal_layers = true;
  template <class Transfer>
  struct State {
    StepTrial<Transfer, Bound> trial;
    Plan tried;
    std::vector<LayerSet> space;
  };

  PlanningOptions options{};
  static constexpr auto numbers =
      Numbers{"UniformDistance", Number{"alpha", member_of(&BasicUniformDistance::options, &PlanningOptions::alpha), 0,
                                        1e9, "misses per step that a plan may accept"}};

  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers), {}}; }
  [[nodiscard]] Holding least(int layers, int on_host) const {
    return {all_tokens, largest_member<DistanceSpace>(layers, on_host), {}};
  }

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
    DistanceSpace::candidates(task.among(), state.space);
    bool found = false;
    for (const LayerSet set : state.space) {
      ++plan.effort;
      Plan& tried = state.tried;
      offload_alike(task, count, set, tried);
      if (!state.trial.fits(task, tried)) {
        if (tried.binding == Binding::host_memory) binding = tried.binding;
        continue;
      }
      const Seconds step = state.trial.step(task, tried, options);
      if (found && step >= plan.predicted_step) continue;
      const bool waits = tried.binding == Binding::link;
      if (!state.trial.within_slo(task, tried, options)) {
        binding = tried.binding;
        continue;
      }
      found = true;
      plan.requests = tried.requests;
      plan.covers_unseen = false;
      plan.in_flight = tried.in_flight;
      plan.predicted_step = plan.lower_bound = step;
      plan.expires_at_step = tried.expires_at_step;
      plan.binding = set.empty() ? Binding::none : waits ? Binding::link : Binding::device_memory;
    }
    return found;
  }
};

using UniformDistance = BasicUniformDistance<>;

static_assert(Placement<UniformDistance>);

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// SloUniform: the smallest uniform distance that meets the SLO according to the profile (SLO-aware offloading).
#pragma once

#include "sluice/policy/placement/step_trial.hpp"
#include "sluice/state/plan/space.hpp"

#include <cstddef>
#include <vector>

namespace sluice {

/// The smallest uniform distance that fits (most host memory) and whose predicted step meets the batch's tightest SLO;
/// if none does, the one with the shortest predicted step. (OrbitFlow, section 5.1, baseline 4; Select-N's goal,
/// applied to KV.)
struct SloUniform {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  static constexpr bool unequal_layers = true;
  template <class Transfer>
  struct State {
    StepTrial<Transfer> trial;
    Plan tried;
    std::vector<LayerSet> space;
  };

  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers), {}}; }
  [[nodiscard]] Holding least(int layers, int on_host) const {
    return {all_tokens, largest_member<DistanceSpace>(layers, on_host), {}};
  }

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
    DistanceSpace::candidates(task.among(), state.space);
    const Seconds slo = task.tightest_slo(count);
    bool found = false, meets = false;
    for (auto set = state.space.rbegin(); set != state.space.rend() && !meets; ++set) { // most layers offloaded first
      ++plan.effort;
      Plan& tried = state.tried;
      offload_alike(task, count, *set, tried);
      if (!state.trial.fits(task, tried)) continue;
      const Seconds step = state.trial.step(task, tried);
      meets = step <= slo;
      if (!meets && found && step >= plan.predicted_step) continue;
      found = true;
      plan.requests = tried.requests;
      plan.in_flight = tried.in_flight;
      plan.predicted_step = plan.lower_bound = step;
    }
    if (!found) return false;
    plan.covers_unseen = false;
    plan.binding = meets ? Binding::slo : Binding::link;
    return true;
  }
};

static_assert(Placement<SloUniform>);

} // namespace sluice

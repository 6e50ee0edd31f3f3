// SPDX-License-Identifier: Apache-2.0
// FixedDistance and OffloadAll: the same layers of every request are offloaded, for every batch.
#pragma once

#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/state/plan/space.hpp"

namespace sluice {

/// Every `Distance`-th layer of every request is offloaded, and as many optional claims join as fit. The plan is one
/// rule for every request, made once.
template <int Distance>
  requires(Distance >= 1)
struct FixedDistance {
  using role = roles::Placement;
  static constexpr bool places_layers = Distance > 1;
  static constexpr bool unequal_layers = true;
  template <class Transfer>
  struct State {
    UniformTrial<Transfer> trial;
  };

  [[nodiscard]] constexpr Holding least(int layers) const {
    return {all_tokens, every_kth_layer(layers, Distance), {}};
  }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.effort = 0; // one rule, found once: no published system of this kind searches
    const LayerSet set = every_kth_layer(task.among(), Distance);
    const auto blocks_of = [&task](const Claim& claim) { return task.blocks(claim); };
    double in_flight = 0;
    const auto fits = [&](std::size_t count) {
      const double held = state.trial.in_flight_if_fits(task, count, set, blocks_of);
      if (held >= 0) in_flight = held;
      return held >= 0;
    };
    if (task.required > 0 && !fits(task.required)) return Verdict::infeasible(Binding::device_memory);
    const std::size_t joined = longest_prefix(task.required, task.claims.size(), fits);
    fits(task.required + joined);
    set_uniform(plan, set, in_flight);
    plan.binding = Binding::layout;
    return {true, joined, plan.binding};
  }
};

/// Every layer of every request is on the host (DeepSpeed-Inference).
using OffloadAll = FixedDistance<1>;

static_assert(Placement<OffloadAll> && Placement<FixedDistance<4>>);

} // namespace sluice

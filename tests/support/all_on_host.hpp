// SPDX-License-Identifier: Apache-2.0
// AllOnHost: a Placement with all KV on the host, which attends all decodes.
#pragma once

#include "sluice/policy/placement/plan_trial.hpp"

#include <cstddef>

namespace sluice::testing {

/// The host has the KV of all requests, and attends all decodes.
struct AllOnHost {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
  };
  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers)}; }
  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    return join_longest_prefix(task, plan, [&](std::size_t count) {
      plan.requests.clear();
      for (const Claim& claim : task.claims.first(count)) {
        Holding holding = least(task.layers());
        holding.attended_on_host = task.view.row(claim.slot).pending() <= Tokens{1};
        plan.requests.push_back({claim.slot, holding});
      }
      return state.trial.fits(task, plan);
    });
  }
};
static_assert(Placement<AllOnHost>);

} // namespace sluice::testing

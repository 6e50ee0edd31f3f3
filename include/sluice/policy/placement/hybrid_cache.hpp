// SPDX-License-Identifier: Apache-2.0
// HybridCache: a request has K and V on the device, or hidden states there, from which each iteration rebuilds them.
#pragma once

#include "sluice/policy/placement/plan_trial.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace sluice {

/// Apt-Serve's hybrid cache (arXiv 2504.07494, abstract). Hidden states, the inputs of every layer, take half the room
/// of K and V without grouped queries. Each iteration projects K and V of all their tokens again, layer by layer, which
/// takes room in addition (`rebuilding_room`).
///
/// Admission chooses (`Claim::as_states`). A request has hidden states from its first token on or not at all, because
/// states exist only while their tokens are computed. One that has them may get K and V instead: the iteration that
/// rebuilds them keeps them. If memory does not hold that for all of these, the first ones that fit get K and V.
///
/// It composes with EveryStep alone: a plan that is only applied reserves no room for the rebuilt layer.
struct HybridCache {
  using role = roles::Placement;
  static constexpr bool places_layers = false;
  static constexpr bool rebuilds = true;
  static constexpr bool keeps_states = true;
  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
  };

  /// K and V: a request that fits alone only with hidden states is refused.
  [[nodiscard]] constexpr Holding least(int /*layers*/) const { return {}; }

  /// Hidden states of every layer, on the device.
  [[nodiscard]] static constexpr Holding states(int layers) {
    Holding holding;
    holding.nowhere = holding.hidden = LayerSet::all(layers);
    holding.states_on_device = true;
    return holding;
  }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    plan.effort = 0; // a sum over the claims
    return join_longest_prefix(task, plan, [&](std::size_t count) {
      const std::span<const Claim> claims = task.claims.first(count);
      const auto changing =
          static_cast<std::size_t>(std::count_if(claims.begin(), claims.end(), [&](const Claim& claim) {
            return may_change(task.view.row(claim.slot), claim);
          }));
      const auto with = [&](std::size_t changes) { return fits(task, state, claims, changes, plan); };
      return with(longest_prefix(0, changing, with));
    });
  }

 private:
  /// Whether Admission wants K and V instead of the request's hidden states.
  [[nodiscard]] static bool may_change(const RequestRow& row, const Claim& claim) {
    return row.holding.states_on_device && !claim.as_states;
  }

  /// Makes the plan for `claims`, of which the first `changes` that may get K and V instead of hidden states.
  template <class Task, class S>
  static bool fits(const Task& task, S& state, std::span<const Claim> claims, std::size_t changes, Plan& plan) {
    plan.requests.clear();
    for (const Claim& claim : claims) {
      const RequestRow& row = task.view.row(claim.slot);
      const bool changed = may_change(row, claim) && changes > 0;
      const bool starts = row.computed.count() == 0 && row.blocks.count() == 0 && claim.as_states;
      const bool has = starts || (row.holding.states_on_device && !changed);
      if (changed) --changes;
      plan.requests.push_back({claim.slot, has ? states(task.layers()) : Holding{}});
    }
    return state.trial.fits(task, plan); // with the room to rebuild
  }
};

static_assert(Placement<HybridCache>);

} // namespace sluice

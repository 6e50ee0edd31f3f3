// SPDX-License-Identifier: Apache-2.0
// HybridCache: a request has K and V on the device, or hidden states there, from which each iteration rebuilds them.
#pragma once

#include "sluice/policy/placement/plan_trial.hpp"

#include <cstddef>

namespace sluice {

/// Apt-Serve's hybrid cache (arXiv 2504.07494, abstract). Hidden states, the inputs of every layer, take half the room
/// of K and V without grouped queries. Each iteration projects K and V of all their tokens again, layer by layer, so
/// one layer's K and V of those requests take room in addition.
///
/// Admission chooses (`Claim::as_states`). A request has hidden states from its first token on or not at all, because
/// states exist only while their tokens are computed. One that has them may get K and V instead: the iteration that
/// rebuilds them keeps them. If memory does not hold that for all of these, none gets K and V.
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
      return fits(task, state, count, true, plan) || fits(task, state, count, false, plan);
    });
  }

 private:
  /// Makes the plan for the first `count` claims. `grows`: requests with hidden states get K and V if they may.
  template <class Task, class S>
  static bool fits(const Task& task, S& state, std::size_t count, bool grows, Plan& plan) {
    plan.requests.clear();
    LayerBlocks rebuilt{0}; // one layer's K and V of all requests with hidden states
    for (const Claim& claim : task.claims.first(count)) {
      const RequestRow& row = task.view.row(claim.slot);
      const bool keeps = row.holding.states_on_device && (claim.as_states || !grows);
      const bool starts = row.computed.count() == 0 && row.blocks.count() == 0 && claim.as_states;
      if (keeps || starts) rebuilt += LayerBlocks{task.blocks(claim).count()};
      plan.requests.push_back({claim.slot, keeps || starts ? states(task.layers()) : Holding{}});
    }
    return state.trial.fits(task, plan, rebuilt);
  }
};

static_assert(Placement<HybridCache>);

} // namespace sluice

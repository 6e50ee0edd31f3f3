// SPDX-License-Identifier: Apache-2.0
// AllResident: every layer of every request is on the device (the default).
#pragma once

#include "sluice/policy/placement/placement.hpp"

namespace sluice {

/// Nothing is offloaded. As many optional claims join as fit, in order. The plan is one rule for every request, so it
/// is made once and then only applied.
struct AllResident {
  using role = roles::Placement;
  static constexpr bool places_layers = false;
  static constexpr bool unequal_layers = true;
  template <class Transfer>
  struct State {};

  [[nodiscard]] constexpr Holding least(int /*layers*/) const { return {}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& /*state*/, Plan& plan) const {
    plan.requests.clear();
    plan.unseen = Holding{};
    plan.covers_unseen = true;
    plan.in_flight = LayerBlocks{0};
    LayerBlocks used{0};
    std::size_t placed = 0;
    for (const Claim& claim : task.claims) {
      used += task.footprint_of(Holding{}, task.blocks(claim)).device;
      if (used > task.device_budget) break;
      ++placed;
    }
    plan.binding = placed < task.claims.size() ? Binding::device_memory : Binding::none;
    if (placed < task.required) return Verdict::infeasible(Binding::device_memory);
    return {true, placed - task.required, plan.binding};
  }
};

static_assert(Placement<AllResident>);

template <>
struct Default<roles::Placement> {
  using type = AllResident;
};

} // namespace sluice

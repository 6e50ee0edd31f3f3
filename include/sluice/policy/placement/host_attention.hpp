// SPDX-License-Identifier: Apache-2.0
// HostAttention: a request's KV is on the device, or on the host, whose processor then attends its decodes (NEO).
#pragma once

#include "sluice/policy/placement/plan_trial.hpp"

#include <cstddef>

namespace sluice {

/// NEO's placement (arXiv 2411.01142): Admission says which requests have their KV on the host (`Claim::on_host`). A
/// prompt of these is computed on the device, which writes its KV out layer by layer; a later chunk fetches what was
/// written. Their decodes are attended where the KV lies. Made for `EveryStep`, since a request's last chunk changes
/// how its KV is read. A single request that exceeds the device goes to the host, whatever Admission says.
struct HostAttention {
  using role = roles::Placement;
  static constexpr bool places_layers = false;
  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
  };

  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers)}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    const bool attends = task.cost.link().host_attention_rate.count() > 0;
    const auto place = [&](const Claim& claim, bool on_host) {
      Holding holding;
      if (on_host) {
        holding.host = LayerSet::all(task.layers());
        const RequestRow& row = task.view.row(claim.slot);
        holding.attended_on_host = attends && row.pending().count() <= 1 && row.holding.nowhere.empty();
      }
      plan.requests.push_back({claim.slot, holding});
    };
    const auto plan_for = [&](std::size_t count, bool all_on_host) {
      plan.requests.clear();
      for (const Claim& claim : task.claims.first(count)) place(claim, claim.on_host || all_on_host);
      return state.trial.fits(task, plan);
    };
    return join_longest_prefix(
        task, plan, [&](std::size_t count) { return plan_for(count, false) || (count == 1 && plan_for(count, true)); });
  }
};

static_assert(Placement<HostAttention>);

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// The check of every plan that is adopted: a placement's mistake ends the run with a sentence instead of a wrong
// result.
#pragma once

#include "sluice/engine/core/checks.hpp"
#include "sluice/engine/core/commit_steps.hpp"
#include "sluice/engine/core/plan_fit.hpp"
#include "sluice/engine/core/writers.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace sluice::detail {

[[gnu::cold, gnu::noinline]] SLUICE_INLINE Error impossible_plan(const PolicyTable& table, std::string what,
                                                                 std::string expected) {
  return {ErrorCode::infeasible, "a plan of " + table.placement_name(), std::move(what), std::move(expected)};
}

[[gnu::cold, gnu::noinline]] SLUICE_INLINE std::string request_text(const Core& core, Slot slot) {
  const bool live = index(slot) < core.requests.rows.size() && core.row(slot).phase != Phase::ended;
  return live ? "request " + std::to_string(index(core.row(slot).id)) : "slot " + std::to_string(index(slot));
}

SLUICE_INLINE bool is_possible(const Core& core, Decision& decision, const Draft& draft, const Change& change,
                               const PolicyCalls& policies, Seconds now, CommitState& state) {
  const Plan& plan = draft.plan;
  const auto wrong = [&](std::string what, std::string expected) {
    state.error = impossible_plan(policies.table, std::move(what), std::move(expected));
    return false;
  };
  if (decision.mistake == Decision::Mistake::proposal) {
    state.error = impossible_proposal(core, decision.proposal, now);
    return false;
  }
  if (decision.mistake == Decision::Mistake::joined)
    return wrong("it says that more requests join than there are optional claims",
                 "Verdict::joined of at most the optional claims");
  if (decision.mistake == Decision::Mistake::victim) {
    state.error = {ErrorCode::infeasible, "a victim of " + policies.table.relief_name(), "it is none of the candidates",
                   "an index below " + std::to_string(decision.claims.size())};
    return false;
  }
  const auto& claims = decision.claims;
  const auto layers_exist = [&](const Holding& holding) {
    return (holding.away() | holding.hidden).highest() < core.geometry.layers;
  };
  // One place for each layer; no copies and no saved states, which the commit decides about.
  const auto is_sound = [&](const Holding& holding) {
    return (holding.host & holding.nowhere).empty() && (holding.hidden - holding.nowhere).empty() &&
           holding.head >= Tokens{0} && holding.copied == Tokens{0} && holding.saved.empty();
  };
  // The host attends single tokens, over all layers and all tokens, where it can.
  const auto host_attends = [&](std::size_t i) {
    if (i >= claims.size() || !target_of(plan, i, claims[i]).attended_on_host) return true;
    const Holding& holding = target_of(plan, i, claims[i]);
    return holding.host == LayerSet::all(core.geometry.layers) && holding.head == all_tokens && !holding.written_back &&
           claims[i].tokens <= Tokens{1} && core.row(claims[i].slot).pending() <= Tokens{1} &&
           core.row(claims[i].slot).holding.nowhere.empty() && core.policies->tiers == nullptr && core.host_attends;
  };
  const auto tiers_have_it = [&](const Holding& holding) {
    return core.policies->tiers == nullptr || holding.nowhere.empty();
  };
  // Who finds released blocks takes them for KV of all layers on the device.
  const auto found_whole = [&](const Holding& holding) {
    return !core.policies->is.finds_released || holding.all_resident();
  };
  // Hidden states exist while their tokens are computed, and are then kept or lost.
  const auto has_states = [&](const RequestPlan& planned) {
    if (index(planned.slot) >= core.requests.rows.size()) return true; // wrong for another reason, below
    const RequestRow& row = core.row(planned.slot);
    return row.computed == Tokens{0} ||
           (row.holding.states_on_device && (planned.holding.hidden - row.holding.hidden).empty() &&
            planned.holding.head <= row.holding.head);
  };
  for (std::size_t i = 0; i < plan.requests.size(); ++i) {
    const RequestPlan& planned = plan.requests[i];
    if (!layers_exist(planned.holding))
      return wrong(request_text(core, planned.slot) + " has a layer away that the model does not have",
                   "layers 0 to " + std::to_string(core.geometry.layers - 1));
    if (!is_sound(planned.holding))
      return wrong(request_text(core, planned.slot) +
                       " has a layer in two places, or tokens below 0, or copies, or saved states",
                   "each layer on the host, nowhere or resident, hidden states of layers that are nowhere");
    if (!tiers_have_it(planned.holding))
      return wrong(request_text(core, planned.slot) + " has a layer nowhere, of which a tier would have no copy",
                   "each layer on the host or resident, and `rebuilds = true` in a Placement that has them nowhere");
    if (!found_whole(planned.holding))
      return wrong(request_text(core, planned.slot) + " has a layer off the device, and its blocks can be found later",
                   "all layers resident, or a Retention with finds_released = false");
    if (planned.holding.states_on_device && !policies.table.is.keeps_states)
      return wrong("it keeps hidden states of " + request_text(core, planned.slot) + " on the device",
                   "hidden states on the host, or `keeps_states = true` in a Placement that keeps them on the device");
    if (planned.holding.states_on_device && !has_states(planned))
      return wrong("it wants hidden states of " + request_text(core, planned.slot) + ", which were not kept",
                   "hidden states on the device from the request's first token on");
    if (i < claims.size() && claims[i].slot == planned.slot)
      continue; // in the order of the claims, as the role requires
    // Another order, or a request that ended while the plan was made ahead: its row is free or another request's.
    if (std::count_if(plan.requests.begin(), plan.requests.end(),
                      [&](const RequestPlan& other) { return other.slot == planned.slot; }) > 1)
      return wrong("it names " + request_text(core, planned.slot) + " twice", "each claim once");
    if (std::none_of(claims.begin(), claims.end(), [&](const Claim& claim) { return claim.slot == planned.slot; }) &&
        (index(planned.slot) >= core.requests.rows.size() || !draft.made_ahead))
      return wrong("it names " + request_text(core, planned.slot) + ", which has no claim",
                   "the requests of the claims");
  }
  if (!plan.covers_unseen)
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (i < plan.requests.size() && plan.requests[i].slot == claims[i].slot) continue;
      if (std::none_of(plan.requests.begin(), plan.requests.end(),
                       [&](const RequestPlan& planned) { return planned.slot == claims[i].slot; }))
        return wrong("it leaves out " + request_text(core, claims[i].slot), "a holding for each claim it accepts");
    }
  else if (!layers_exist(plan.unseen) || !is_sound(plan.unseen) || !tiers_have_it(plan.unseen) ||
           !found_whole(plan.unseen) || plan.unseen.states_on_device)
    return wrong("its rule has a layer away that the model does not have, or one in two places, or copies, or saved "
                 "states, or hidden states on the device, or a layer away whose blocks can be found later",
                 "each of the layers 0 to " + std::to_string(core.geometry.layers - 1) + " in one place");
  for (std::size_t i = 0; i < claims.size(); ++i)
    if (!host_attends(i))
      return wrong(
          "it has the host attend " + request_text(core, claims[i].slot),
          "a decode with all layers and tokens on the host and none to rebuild, a backend whose host attends (a "
          "simulated one without prefix tiers, or the CPU), and a device with host_attention_bytes_per_s");
  if (plan.in_flight < LayerBlocks{0})
    return wrong("its blocks in flight are " + std::to_string(plan.in_flight.count()), "at least 0");

  std::size_t required = 0;
  while (required < claims.size() && claims[required].required) ++required;
  const Budget budget = budget_of(core, policies, decision, required, plan.weights, now);
  LayerBlocks host{0};    // without copies and saved states, which are given up for the plan
  LayerBlocks rebuilt{0}; // beside what is fetched: to rebuild from hidden states on the device
  std::vector<LayerStream>& fetched = state.fetched;
  fetched.clear();
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const Holding& holding = target_of(plan, i, claims[i]);
    const Holding& now_held = core.row(claims[i].slot).holding;
    if (holding.all_resident() && !now_held.states_on_device) continue;
    const TokenBlocks blocks = core.row(claims[i].slot).blocks_after(claims[i].tokens, core.limits.block_tokens);
    rebuilt += rebuilding_room(now_held, holding, blocks, core.limits.block_tokens, core.geometry.hidden_size());
    if (holding.all_resident()) continue;
    host += core.footprint(holding, blocks).host;
    add_streams(core, fetched, holding, blocks);
  }
  // What the transfer rule and rebuilding need, even if the plan says less.
  const LayerBlocks in_flight =
      std::max(plan.in_flight, rebuilt + (fetched.empty() ? LayerBlocks{0} : core.in_flight(fetched)));
  if (change.after.device + in_flight > budget.device)
    return wrong("its " + std::to_string(claims.size()) + " requests take " +
                     std::to_string(change.after.device.count()) + " layer blocks of device memory and " +
                     std::to_string(in_flight.count()) + " in flight",
                 "at most " + std::to_string(budget.device.count()) + " together");
  if (host > budget.host)
    return wrong("its " + std::to_string(claims.size()) + " requests take " + std::to_string(host.count()) +
                     " layer blocks of host memory",
                 "at most " + std::to_string(budget.host.count()));
  decision.in_flight = in_flight;
  return true;
}

} // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
// plan_fit: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/engine/core/plan_fit.hpp"
#include "sluice/engine/core/writers.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

namespace sluice {

SLUICE_INLINE bool refuses(const Core& core, const Decision& decision, Slot slot) {
  const std::vector<Slot>& victims = decision.victims;
  return core.policies->is.refuses_victims && std::find(victims.begin(), victims.end(), slot) != victims.end();
}

namespace detail {
/// How much less room the requests that this decision preempts give up than they took, since others share their blocks:
/// below 0 where they hold blocks that another request took and has left behind. Those that join have counted what they
/// found as held by someone.
SLUICE_INLINE LayerBlocks kept_by_sharing(const Core& core, const Decision& decision) {
  std::vector<Slot> leaving, joining;
  LayerBlocks took{0};
  for (const auto* aside : {&decision.leaving, &decision.victims})
    for (const Slot slot : *aside)
      if (const RequestRow& request = core.row(slot); request.phase == Phase::running) {
        leaving.push_back(slot);
        took += core.footprint(request).device;
      }
  for (const Claim& claim : decision.claims)
    if (core.row(claim.slot).phase != Phase::running) joining.push_back(claim.slot);
  const LayerBlocks freed =
      core.prefix.freed(leaving, joining, core.requests.rows, core.limits.block_tokens, core.geometry.layers);
  return took - freed;
}
} // namespace detail

SLUICE_INLINE Budget budget_of(const Core& core, const PolicyCalls& policies, const Decision& decision,
                               std::size_t required, const WeightsPlan& weights, Seconds now) {
  LayerBlocks preempted_host{0};
  Budget budget;
  for (const Slot slot : core.requests.preempted) {
    if (refuses(core, decision, slot)) continue;
    const RequestRow& request = core.row(slot);
    if (!decision.empties_preempted) preempted_host += core.footprint_without_spare(request, request.blocks).host;
    if (request.deposit().count() == 0) ++budget.depleted;
  }
  // A required claim certainly returns, and its footprint includes its host memory. An optional claim may not return.
  if (!decision.empties_preempted && !core.requests.preempted.empty())
    for (std::size_t i = 0; i < required; ++i) {
      const RequestRow& request = core.row(decision.claims[i].slot);
      if (request.phase == Phase::preempted)
        preempted_host -= core.footprint_without_spare(request, request.blocks).host;
    }
  // So does the host memory of requests that this decision preempts. Of those that leave, it is what their retention
  // moves there at once: they left only because the host has room (`Decider::let_leave`), and the claims must not take
  // it. KV that stays on the device until its room is needed competes with the claims, as that of any preempted request
  // does. A victim's room is not reserved: it is preempted because no plan fits beside it.
  if (!decision.empties_preempted && (!decision.leaving.empty() || !decision.victims.empty())) {
    const View view = core.view(now);
    for (const auto* aside : {&decision.leaving, &decision.victims})
      for (const Slot slot : *aside) {
        const RequestRow& request = core.row(slot);
        if (request.phase != Phase::running || refuses(core, decision, slot)) continue;
        const Kept kept = kept_of(policies, view, request);
        const bool stays = aside == &decision.victims && kept != Kept::nothing;
        preempted_host += host_of(core, request, stays ? Kept::device : kept);
      }
  }
  budget.device = core.ledger.device().capacity() + (core.capacity_with(weights) - core.kv_capacity);
  budget.device -= core.prefix.pinned();
  if (core.policies->is.finds_released && !(decision.leaving.empty() && decision.victims.empty()))
    budget.device -= detail::kept_by_sharing(core, decision);
  budget.host = core.ledger.host().capacity() - preempted_host;
  return budget;
}

SLUICE_INLINE Verdict apply_plan(const Core& core, Draft& draft, Decision& decision, std::size_t required,
                                 const Budget& budget) {
  const Tokens block_tokens = core.limits.block_tokens;
  Footprint used;
  bool away = false;
  std::size_t placed = 0;
  LayerBlocks in_flight{0};
  draft.streams.clear();
  draft.fetches = false;
  for (const Claim& claim : decision.claims) {
    const RequestRow& request = core.row(claim.slot);
    const bool is_required = placed < required;
    if (!core.covers(request)) {
      if (is_required) return {};
      break; // an optional claim that the plan has not seen waits for the next plan
    }
    const Holding& planned = core.holding_by_plan(request);
    const TokenBlocks blocks =
        request.blocks_after(is_required ? claim.tokens : std::max(claim.tokens, claim.reserve), block_tokens);
    if (planned.all_resident()) {
      used.device += core.room_of(blocks); // copies and saved states that are in the way are given up
    } else {
      const Holding holding = planned.without_spare();
      used = used + core.footprint_away(holding, blocks);
      away = true;
      detail::add_streams(core, draft.streams, holding, blocks);
      draft.fetches = !draft.streams.empty();
    }
    LayerBlocks needed = used.device;
    if (away && placed + 1 >= required) { // the required claims fit together or not at all
      in_flight = core.in_flight(draft.streams);
      needed += in_flight;
    }
    if (needed > budget.device || used.host > budget.host) {
      if (is_required)
        return Verdict::infeasible(needed > budget.device ? Binding::device_memory : Binding::host_memory);
      break;
    }
    decision.in_flight = in_flight;
    ++placed;
  }
  return {true, placed - required, Binding::none};
}

namespace detail {

SLUICE_INLINE void add_streams(const Core& core, std::vector<LayerStream>& streams, const Holding& holding,
                               TokenBlocks blocks) {
  const LayerBlocks head = core.geometry.moved(holding.head_blocks(blocks, core.limits.block_tokens));
  Moves::stream(streams, holding, static_cast<double>(head.count()), core.geometry.hidden_size());
}

SLUICE_INLINE LayerBlocks GrownRoom::blocks() const { return core->in_flight(streams) + rebuilt; }

SLUICE_INLINE void GrownRoom::add(const Holding& holding, TokenBlocks blocks) {
  add_streams(*core, streams, holding, blocks);
  if (!holding.nowhere.empty()) rebuilt += LayerBlocks{holding.head_blocks(blocks, core->limits.block_tokens).count()};
}

} // namespace detail

SLUICE_INLINE bool repeat_last(const Core& core, Decision& decision) {
  std::vector<Slot> next;
  next.swap(decision.next); // copies go on in the same order
  decision.clear();
  next.swap(decision.next);
  Footprint growth;
  detail::GrownRoom in_flight{&core};
  for (const Slot slot : core.requests.running) {
    const RequestRow& request = core.row(slot);
    if (request.computed.count() == 0 || request.pending().count() != 1 || request.waits)
      return false; // not part of an iteration yet
    decision.claims.push_back({slot, Tokens{1}, Tokens{0}, true});
    const TokenBlocks blocks = request.blocks_after(Tokens{1}, core.limits.block_tokens);
    growth = growth + (core.footprint_without_spare(request, blocks) -
                       core.footprint_without_spare(request, request.blocks)); // copies and saved states are given up
    if (core.policies->is.real_time) in_flight.add(request.holding, blocks);
  }
  if (core.policies->is.real_time) growth.device += in_flight.blocks(); // for more tokens than the plan was made for
  if (decision.claims.empty() || growth.device > core.ledger.device().free() ||
      growth.host > core.ledger.host().free() + core.spare_blocks())
    return false;
  decision.valid = true;
  return true;
}

SLUICE_INLINE bool still_fits(const Core& core, const Draft& draft, Decision& decision, const PolicyCalls& policies,
                              Seconds now) {
  if (decision.claims.empty()) return false;
  Footprint all;
  detail::GrownRoom in_flight{&core};
  for (const Claim& claim : decision.claims) {
    const RequestRow& request = core.row(claim.slot);
    if (claim.tokens > request.pending()) return false;
    Holding holding = request.holding.without_spare();
    if (decision.new_plan) {
      holding = draft.plan.unseen;
      for (const RequestPlan& planned : draft.plan.requests)
        if (planned.slot == claim.slot) holding = planned.holding;
    } else if (request.phase != Phase::running) {
      if (!core.covers(request)) return false;
      holding = core.holding_by_plan(request);
    }
    // What a request was to find may have been overwritten, evicted or released since.
    if (request.phase != Phase::running && !core.finds_the_same(claim.slot)) return false;
    const TokenBlocks blocks = request.blocks_after(claim.tokens, core.limits.block_tokens);
    all = all + core.footprint(holding, blocks);
    if (core.policies->is.real_time) in_flight.add(holding, blocks);
  }
  if (core.policies->is.real_time) // the requests may have grown, and preempted ones give up memory for this
    decision.in_flight = std::max(decision.in_flight, in_flight.blocks());
  // Running requests that the decision does not name hold memory too: a request joined or was given up since.
  if (decision.claims.size() < core.requests.running.size())
    for (const Slot slot : core.requests.running) {
      const auto among = [slot](std::span<const Slot> list) {
        return std::find(list.begin(), list.end(), slot) != list.end();
      };
      const bool claims = std::any_of(decision.claims.begin(), decision.claims.end(),
                                      [slot](const Claim& claim) { return claim.slot == slot; });
      const bool refused = std::any_of(decision.refused.begin(), decision.refused.end(),
                                       [slot](const Refusal& one) { return one.slot == slot; });
      if (!claims && !refused && !among(decision.leaving) && !among(decision.victims)) return false;
    }
  const WeightsPlan& weights = decision.new_plan ? draft.plan.weights : core.plan.weights;
  const Budget budget = budget_of(core, policies, decision, decision.claims.size(), weights, now); // all claims join
  return all.device + decision.in_flight <= budget.device && all.host <= budget.host;
}

SLUICE_INLINE void detail::keep_after_all(const Core& core, Slot slot, std::vector<Claim>& claims) {
  const auto last_joiner = [&] {
    return std::find_if(claims.rbegin(), claims.rend(),
                        [&core](const Claim& claim) { return core.row(claim.slot).phase != Phase::running; });
  };
  while (static_cast<int>(claims.size()) >= core.limits.batch && last_joiner() != claims.rend())
    claims.erase(std::next(last_joiner()).base());
  Tokens left = core.limits.batch_tokens;
  for (const Claim& claim : claims) left -= claim.tokens;
  const Tokens wanted = std::min(core.row(slot).pending(), Tokens{1});
  for (auto last = last_joiner(); left < wanted && last != claims.rend(); last = last_joiner()) {
    const Tokens taken = std::min(last->tokens, wanted - left);
    left += taken;
    last->tokens -= taken;
    if (last->tokens == Tokens{0}) claims.erase(std::next(last).base());
  }
  claims.insert(claims.begin(), Claim{slot, std::clamp(left, Tokens{0}, wanted), Tokens{0}, true});
}

namespace detail {
/// Host memory for what a preempted request keeps on the device, once its room there is needed.
SLUICE_INLINE LayerBlocks given_to_host(const Core& core, const PolicyCalls& policies, const View& view, Slot slot) {
  const RequestRow& request = core.row(slot);
  const LayerBlocks here = core.footprint(request).device;
  return here.count() > 0 && moves_once_needed(policies, view, request) ? here : LayerBlocks{0};
}
/// Host memory that a request takes beyond what it has there if it leaves, now or once its room on the device is
/// needed. Negative: it frees that much.
SLUICE_INLINE LayerBlocks taken_by_leaving(const Core& core, const PolicyCalls& policies, const View& view, Slot slot) {
  const RequestRow& request = core.row(slot);
  const Kept kept = kept_of(policies, view, request);
  if (kept == Kept::device) return given_to_host(core, policies, view, slot);
  return host_of(core, request, kept) - host_of(core, request, Kept::device);
}
} // namespace detail

SLUICE_INLINE void let_leave(const Core& core, const Draft& draft, Decision& decision, const View& view,
                             const PolicyCalls& policies) {
  std::vector<Slot>& leaving = decision.leaving;
  const auto keep_last = [&] {
    detail::keep_after_all(core, leaving.back(), decision.claims);
    leaving.pop_back();
  };
  // Memory for the requests that certainly return. An optional claim may not join, and a pressing one neither; then
  // others take their memory.
  const auto returned = [&] {
    LayerBlocks all{0};
    for (const Claim& claim : decision.claims)
      if (claim.required && !claim.presses() && core.row(claim.slot).phase == Phase::preempted)
        all += detail::given_to_host(core, policies, view, claim.slot);
    return all;
  };
  LayerBlocks left = core.ledger.host().free() + core.spare_blocks();
  for (const Slot slot : view.preempted) left -= detail::given_to_host(core, policies, view, slot);
  LayerBlocks back = returned();
  for (const bool takes : {false, true})
    for (const Slot slot : draft.proposal.leaving) {
      LayerBlocks taken = detail::taken_by_leaving(core, policies, view, slot);
      if ((taken.count() > 0) != takes) continue;
      leaving.push_back(slot);
      left -= taken;
      // A request that stays may keep others from returning, and then one that left before it has no room either.
      while (taken.count() > 0 && left + back < LayerBlocks{0}) {
        left += taken;
        keep_last();
        back = returned();
        taken = leaving.empty() ? LayerBlocks{0} : detail::taken_by_leaving(core, policies, view, leaving.back());
      }
    }
  if (decision.claims.empty()) // no request needs the room: a batch is not emptied by choice
    while (!leaving.empty()) keep_last();
}

SLUICE_INLINE bool others_keep_memory(const Core& core, const Decision& decision) {
  const auto any_stays = [&](const std::vector<Slot>& slots) {
    return std::any_of(slots.begin(), slots.end(), [&](Slot slot) { return !refuses(core, decision, slot); });
  };
  return !decision.leaving.empty() || any_stays(core.requests.preempted) || any_stays(decision.victims);
}

SLUICE_INLINE bool keep_joined(std::vector<Claim>& claims, std::size_t required, const Verdict& verdict) {
  const std::size_t optional = claims.size() - required;
  if (verdict.joined > optional || verdict.skipped.size() > optional - verdict.joined) return false;
  const std::size_t considered = required + verdict.joined + verdict.skipped.size();
  std::size_t before = required; // the least index that may come next
  for (const std::size_t skipped : verdict.skipped) {
    if (skipped < before || skipped + 1 >= considered) return false;
    before = skipped + 1;
  }
  if (!verdict.feasible || considered == 0) return true;
  claims.resize(considered);
  for (std::size_t i = verdict.skipped.size(); i > 0; --i)
    claims.erase(claims.begin() + static_cast<std::ptrdiff_t>(verdict.skipped[i - 1]));
  return true;
}

SLUICE_INLINE void settle_pressing(Draft& draft, Decision& decision, std::size_t& required) {
  auto& claims = decision.claims;
  const Slot cost = claims[required - 1].at_cost_of;
  const auto paid = std::find(decision.victims.begin(), decision.victims.end(), cost);
  if (paid == decision.victims.end()) {
    const auto at = std::find_if(claims.begin(), claims.end(), [cost](const Claim& one) { return one.slot == cost; });
    draft.paid = {*at, at - claims.begin()};
    draft.optional.assign(claims.begin() + static_cast<std::ptrdiff_t>(required), claims.end());
    claims.resize(required);
    claims.erase(at);
    decision.victims.push_back(cost);
    --required;
  } else {
    claims[required - 1] = draft.paid.claim;
    std::rotate(claims.begin() + draft.paid.at, claims.begin() + static_cast<std::ptrdiff_t>(required) - 1,
                claims.begin() + static_cast<std::ptrdiff_t>(required));
    decision.victims.erase(paid);
    claims.insert(claims.end(), draft.optional.begin(), draft.optional.end());
  }
}

} // namespace sluice

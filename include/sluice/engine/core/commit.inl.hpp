// SPDX-License-Identifier: Apache-2.0
// commit: how a decision becomes fact; a definition that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/engine/core/commit_steps.hpp"
#include "sluice/engine/core/writers.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

namespace detail {

/// Puts the drafted plan in force; the memory that its weights give up becomes KV memory.
SLUICE_INLINE void adopt_plan(Core& core, Draft& draft, const PolicyCalls& policies, LayerBlocks& taken_back) {
  const LayerBlocks freed = core.capacity_with(draft.plan.weights) - core.kv_capacity;
  if (freed.count() > 0) core.ledger.resize_device(core.ledger.device().capacity() + freed);
  if (freed.count() < 0) taken_back = -freed;
  core.kv_capacity += freed;
  if (policies.table.is.streams_weights) {
    if (policies.table.is.finds_released && freed.count() > 0)
      core.prefix.resize(core.kv_capacity, core.geometry.layers);
    core.lending.borrowed = draft.offer.borrowed;
    core.lending.own_level =
        draft.plan.weights.streamed.empty() ? 0 : draft.plan.weights.level - core.lending.lent_layers;
  }
  std::swap(core.plan, draft.plan);
  ++core.plan_serial;
  policies.table.planned(policies.policies);
  for (const RequestPlan& planned : core.plan.requests) core.row(planned.slot).plan_serial = core.plan_serial;
}

SLUICE_INLINE Change change_of(const Core& core, const Decision& decision, const Plan& planned, Spare spare,
                               const CommitState& state) {
  const PolicyFacts& is = core.policies->is;
  const bool has_spare = is.copies_ahead || is.keeps_hidden;
  const bool leaves_out = has_spare && spare == Spare::left_out;
  const auto held = [&](const RequestRow& request, TokenBlocks blocks) {
    return leaves_out ? core.footprint_without_spare(request, blocks) : core.footprint(request.holding, blocks);
  };
  Change change;
  for (std::size_t i = 0; i < decision.claims.size(); ++i) {
    const Claim& claim = decision.claims[i];
    const RequestRow& request = core.row(claim.slot);
    const TokenBlocks blocks = request.blocks_after(claim.tokens, core.limits.block_tokens);
    if (!decision.new_plan && request.phase == Phase::running) {
      if (blocks == request.blocks) continue;
      change.after = change.after + (held(request, blocks) - held(request, request.blocks));
      continue;
    }
    change.before = change.before + held(request, request.blocks);
    const Holding& target = decision.new_plan ? target_of(planned, i, claim) : core.holding_by_plan(request);
    if (!has_spare || leaves_out) {
      change.after = change.after + core.footprint(leaves_out ? target.without_spare() : target, blocks);
      continue;
    }
    Holding coming = state.keeps_copies ? with_copies(core, request, target) : target;
    coming.saved = states_of(request, i, state.saved) - target.away();
    change.after = change.after + core.footprint(coming, blocks);
  }
  return change;
}

SLUICE_INLINE const Holding& target_of(const Plan& plan, std::size_t i, const Claim& claim) {
  if (i < plan.requests.size() && plan.requests[i].slot == claim.slot) return plan.requests[i].holding;
  for (const RequestPlan& planned : plan.requests)
    if (planned.slot == claim.slot) return planned.holding;
  return plan.unseen;
}

} // namespace detail

/// Order matters. What the claims need is computed before any request is preempted. Requests that leave free memory
/// before others take it. Preempted requests give up memory only for what is then still missing. The ledger is updated
/// before a block is counted, so that it never exceeds its capacity.
SLUICE_INLINE bool commit(Core& core, Decision& decision, Draft& draft, const PolicyCalls& policies, Seconds now,
                          CommitState& state) {
  using namespace detail;
  const PolicyTable& table = policies.table;
  Moves& moves = state.moves;
  const Plan& planned = decision.new_plan ? draft.plan : core.plan;
  Change change = change_of(core, decision, planned, Spare::left_out, state);
  if ((decision.new_plan || decision.mistake != Decision::Mistake::none) &&
      !is_possible(core, decision, draft, change, policies, now, state))
    return false;

  const bool fetched = draft.fetches;
  const bool came_back = moves.returned_blocks > 0;
  const WeightsPlan weights = core.plan.weights;
  moves.clear();

  LayerBlocks taken_back{0}; // memory that weights take back, once all requests have moved out
  if (decision.new_plan) adopt_plan(core, draft, policies, taken_back);
  // Host memory for the claims is reserved before any request is preempted to the host, because the plan relies on it.
  // What the claims give back is free only afterwards. Other requests may take the room of copies and saved hidden
  // states before the claims do, so these do not count as memory that the claims have.
  state.host_reserved = std::max(LayerBlocks{0}, change.after.host - change.before.host);
  if (core.shares_host()) // before any request takes room on the host from the tier
    for (const Claim& claim : decision.claims)
      if (const RequestRow& request = core.row(claim.slot);
          request.phase != Phase::running && request.loading.count() > 0)
        table.tiers->use(core, claim.slot, now);

  if (table.is.refuses_victims) // first, because requests that leave may move to where they were
    for (const Slot slot : decision.victims)
      refuse_request(core, {slot, "no plan fits it beside those that already run", true}, policies, now);
  for (const Slot slot : decision.leaving) preempt(core, slot, decision, policies, now, state);
  if (!table.is.refuses_victims)
    for (const Slot slot : decision.victims)
      if (core.row(slot).phase == Phase::running) preempt(core, slot, decision, policies, now, state);
  if (decision.empties_preempted)
    for (const Slot slot : core.requests.preempted)
      if (std::none_of(decision.claims.begin(), decision.claims.end(),
                       [slot](const Claim& claim) { return claim.slot == slot; }))
        drop(core, core.row(slot));
  for (const Refusal& refused : decision.refused) {
    // It may be refused for what it holds and not for what it needs: to give up hidden states on the device takes room
    // beside them, for the K and V that are rebuilt from them. Without them it is as small as any other request.
    const bool in_its_own_way = refused.impossible && core.row(refused.slot).holding.states_on_device;
    if (!in_its_own_way || !lose_kv(core, refused.slot, true, draft, policies, now))
      refuse_request(core, refused, policies, now);
  }

  if (table.is.finds_released) // before any request takes a free block, which might be one of those found
    for (const Claim& claim : decision.claims)
      if (core.row(claim.slot).phase != Phase::running)
        core.prefix.attach(claim.slot, core.row(claim.slot), core.limits.block_tokens);
  const LayerBlocks pinned = core.prefix.pinned();
  if (pinned.count() > 0) // a pin whose blocks its session's next request has now
    for (const Claim& claim : decision.claims)
      if (const RequestRow& request = core.row(claim.slot);
          request.phase != Phase::running && request.spec.session != 0)
        unpin_session(core, request.spec.session);

  // Preempted requests give up what is then missing on the device.
  const LayerBlocks needed = change.after.device - change.before.device + decision.in_flight + taken_back;
  if (needed > core.ledger.device().free())
    reclaim(core, needed - core.ledger.device().free(), decision, policies, now, state);
  if (table.is.keeps_hidden) ask_for_states(core, decision, policies, now, state.saved);
  state.keeps_copies = true;
  if (table.is.copies_ahead || table.is.keeps_hidden) fit_host(core, decision, change, state);

  // All claims at once: their sum fits, but one claim after the other might not.
  take_host(core, change.after.host - change.before.host, now);
  core.ledger.replace(change.before, change.after);
  const bool keeps_slots = table.is.wants_timeline && !table.is.real_time;
  for (std::size_t i = 0; i < decision.claims.size(); ++i) {
    const Claim& claim = decision.claims[i];
    RequestRow& request = core.row(claim.slot);
    const LayerSet saved = states_of(request, i, state.saved);
    if (!decision.new_plan && request.phase == Phase::running && request.holding.all_resident() && saved.empty()) {
      grow(core, claim.slot, claim.tokens);
      continue;
    }
    if (decision.new_plan)
      move_claim(core, claim, target_of(core.plan, i, claim), saved, policies, now, state);
    else // copied, because it may be the row's own
      move_claim(core, claim, Holding{core.holding_by_plan(request)}, saved, policies, now, state);
    if (keeps_slots) moves.stream_slots.resize(moves.streams.size(), claim.slot);
  }
  // Only now, since blocks that a claim has attached but not yet taken are neither free nor in use.
  const bool preempted = !decision.victims.empty() || !decision.leaving.empty();
  if (taken_back.count() > 0 && table.is.finds_released) core.prefix.resize(core.kv_capacity, core.geometry.layers);
  if (core.prefix.pinned() < pinned ||
      (table.is.finds_released && (preempted || !core.geometry.alike() || taken_back.count() > 0)))
    core.ledger.resize_device(core.ledger.device().used() + core.prefix.free(core.geometry.layers));
  else if (taken_back.count() > 0)
    core.ledger.resize_device(core.ledger.device().capacity() - taken_back);
  if (table.is.streams_weights && !decision.claims.empty()) {
    Lending& lending = core.lending;
    return_weights(core.geometry, weights, core.plan.weights, lending.most_lent_layers - lending.lent_in_force, moves);
    lending.lent_in_force = lending.most_lent_layers = lending.lent_layers;
  }
  draft.fetches = !moves.streams.empty();
  const bool other_batch = decision.new_plan || preempted;
  if (came_back || (other_batch && (fetched || draft.fetches || !(weights == core.plan.weights))))
    core.carry_over.batch_changed();
  return true;
}

} // namespace sluice

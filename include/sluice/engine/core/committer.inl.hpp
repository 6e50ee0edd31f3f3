// SPDX-License-Identifier: Apache-2.0
// Committer: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/engine/core/committer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice {

/// Order matters: what the claims need is known before any request is preempted; requests that leave free memory before
/// others take it; what preempted requests keep is given up only for what is then still missing; and the ledger is
/// asked before a block is counted, so that it never exceeds its capacity.
SLUICE_INLINE bool Committer::commit(Core& core, Decision& decision, Draft& draft, const PolicyCalls& policies,
                                     Seconds now) {
  const PolicyTable& table = policies.table;
  const Plan& planned = decision.new_plan ? draft.plan : core.plan;
  Change change = change_of(core, decision, planned, States::left_out);
  if ((decision.new_plan || decision.mistake != Decision::Mistake::none) &&
      !possible(core, decision, draft, change, policies, now))
    return false;

  const bool fetched = draft.fetches;
  const bool came_back = moves_.returned_blocks > 0;
  const WeightsPlan weights = core.plan.weights;
  moves_.clear();

  LayerBlocks taken_back{0}; // by weights that return: only once all requests have moved out
  if (decision.new_plan) adopt(core, draft, policies, taken_back);
  // Host memory that the claims need is reserved before any request is preempted to the host: the plan placed the
  // claims by it. What the claims give back is free only afterwards. Hidden states that they save are not part of it.
  host_reserved_ = std::max(LayerBlocks{0}, change.after.host - change.before.host);

  for (const Slot slot : decision.leaving) preempt(core, slot, policies, now);
  for (const Slot slot : decision.victims) {
    if (table.is.refuses_victims)
      refuse(core, slot, "no plan fits it beside those that already run", policies, now);
    else if (core.row(slot).phase == Phase::running)
      preempt(core, slot, policies, now);
  }
  if (decision.empties_preempted)
    for (const Slot slot : core.requests.preempted)
      if (std::none_of(decision.claims.begin(), decision.claims.end(),
                       [slot](const Claim& claim) { return claim.slot == slot; }))
        drop(core, core.row(slot));
  for (const Slot slot : decision.unplaceable) refuse(core, slot, "it cannot be placed even alone", policies, now);

  if (table.is.finds_released) // before any request takes a free block, which might be one of those found
    for (const Claim& claim : decision.claims)
      if (core.row(claim.slot).phase != Phase::running)
        core.prefix.attach(claim.slot, core.row(claim.slot), core.limits.block_tokens);

  // What is then missing on the device, preempted requests give up.
  const LayerBlocks needed = change.after.device - change.before.device + decision.in_flight + taken_back;
  if (needed > core.ledger.device().free())
    reclaim(core, needed - core.ledger.device().free(), decision, policies, now);
  if (table.is.keeps_hidden) ask_for_states(core, decision, policies, now);
  if (table.is.copies_ahead || table.is.keeps_hidden) fit_host(core, decision, change);

  // All claims in one step: the sum fits, but one claim after the other might not.
  core.ledger.replace(change.before, change.after);
  const bool keeps_slots = table.is.wants_timeline && !table.is.real_time;
  for (std::size_t i = 0; i < decision.claims.size(); ++i) {
    const Claim& claim = decision.claims[i];
    RequestRow& request = core.row(claim.slot);
    const LayerSet saved = states_of(request, i);
    if (!decision.new_plan && request.phase == Phase::running && request.holding.all_resident() && saved.empty()) {
      grow(core, claim.slot, claim.tokens);
      continue;
    }
    if (decision.new_plan)
      move_claim(core, claim, target_of(core.plan, i, claim), saved, policies, now);
    else // a copy: it may be the row's own
      move_claim(core, claim, Holding{core.holding_by_plan(request)}, saved, policies, now);
    if (keeps_slots) moves_.stream_slots.resize(moves_.streams.size(), claim.slot);
  }
  if (taken_back.count() > 0) core.ledger.resize_device(core.ledger.device().capacity() - taken_back);
  if (table.is.streams_weights && !decision.claims.empty()) {
    Lending& lending = core.lending;
    return_weights(core.geometry, weights, core.plan.weights, lending.most_lent_layers - lending.lent_in_force, moves_);
    lending.lent_in_force = lending.most_lent_layers = lending.lent_layers;
  }
  draft.fetches = !moves_.streams.empty();
  const bool other_batch = decision.new_plan || !decision.victims.empty() || !decision.leaving.empty();
  if (came_back || (other_batch && (fetched || draft.fetches || !(weights == core.plan.weights))))
    core.stale_prefetches = true;
  return true;
}

/// The drafted plan is in force, and the memory that its weights give up is KV memory.
SLUICE_INLINE void Committer::adopt(Core& core, Draft& draft, const PolicyCalls& policies, LayerBlocks& taken_back) {
  const LayerBlocks freed = core.capacity_with(draft.plan.weights) - core.kv_capacity;
  if (freed.count() > 0) core.ledger.resize_device(core.ledger.device().capacity() + freed);
  if (freed.count() < 0) taken_back = -freed;
  core.kv_capacity += freed;
  if (policies.table.is.streams_weights) {
    core.lending.borrowed = draft.offer.borrowed;
    core.lending.own_level =
        draft.plan.weights.streamed.empty() ? 0 : draft.plan.weights.level - core.lending.lent_layers;
  }
  std::swap(core.plan, draft.plan);
  ++core.plan_serial;
  policies.table.planned(policies.policies);
  for (const RequestPlan& planned : core.plan.requests) core.row(planned.slot).plan_serial = core.plan_serial;
}

SLUICE_INLINE Committer::Change Committer::change_of(const Core& core, const Decision& decision, const Plan& planned,
                                                     States states) const {
  const PolicyFacts& is = core.policies->is;
  const bool leaves_out = is.keeps_hidden && states == States::left_out;
  const auto held = [&](const RequestRow& request, TokenBlocks blocks) {
    return leaves_out ? core.footprint_without_saved(request, blocks) : core.footprint(request.holding, blocks);
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
    if (!is.copies_ahead && !is.keeps_hidden) {
      change.after = change.after + core.footprint(target, blocks);
      continue;
    }
    Holding coming = with_copies(core, request, target);
    coming.saved = leaves_out ? LayerSet{} : states_of(request, i) - target.away();
    change.after = change.after + core.footprint(coming, blocks);
  }
  return change;
}

/// The holding that a plan gives to the claim at position `i`.
SLUICE_INLINE const Holding& Committer::target_of(const Plan& plan, std::size_t i, const Claim& claim) {
  if (i < plan.requests.size() && plan.requests[i].slot == claim.slot) return plan.requests[i].holding;
  for (const RequestPlan& planned : plan.requests)
    if (planned.slot == claim.slot) return planned.holding;
  return plan.unseen;
}

SLUICE_INLINE void Committer::grow(Core& core, Slot slot, Tokens tokens) {
  RequestRow& request = core.row(slot);
  const Tokens block_tokens = core.limits.block_tokens;
  const TokenBlocks blocks = request.blocks_after(tokens, block_tokens);
  request.slack += Tokens{(blocks - request.blocks).count() * block_tokens.count()} - tokens;
  request.blocks = blocks;
  if (core.policies->is.finds_released) core.prefix.extend(slot, request.computed + tokens, block_tokens);
}

SLUICE_INLINE void Committer::join(Core& core, Slot slot, const PolicyCalls& policies, Seconds now) {
  RequestRow& request = core.row(slot);
  if (request.phase == Phase::waiting) {
    policies.table.left_queue(policies.policies, slot, request);
    --core.requests.waiting;
  } else {
    std::erase(core.requests.preempted, slot);
    policies.table.resumed(policies.policies, request, now);
  }
  request.phase = Phase::running;
  request.running_since = now;
  core.requests.running.push_back(slot);
}

SLUICE_INLINE Slot Committer::enter(Core& core, RequestId id, const RequestSpec& spec,
                                    std::span<const BlockKey> prompt_keys) {
  RequestTable& requests = core.requests;
  Slot slot;
  if (requests.free_slots.empty()) {
    slot = Slot{static_cast<std::uint32_t>(requests.rows.size())};
    requests.rows.emplace_back();
  } else {
    slot = requests.free_slots.back();
    requests.free_slots.pop_back();
    core.row(slot) = RequestRow{};
  }
  RequestRow& request = core.row(slot);
  request.id = id;
  request.spec = spec;
  request.resident_layers = core.geometry.layers;
  if (core.policies->is.finds_released) core.prefix.enter(slot, id, prompt_keys);
  core.lending.prompt_tokens += static_cast<double>(spec.prompt.count());
  ++core.lending.accepted;
  ++requests.waiting;
  ++requests.alive;
  core.steady = false;
  return slot;
}

SLUICE_INLINE void Committer::refuse(Core& core, Slot slot, std::string_view why, const PolicyCalls& policies,
                                     Seconds now) {
  const RequestRow& request = core.row(slot);
  leave_list(core, slot, policies);
  policies.table.refused(policies.policies, request.id, request.spec, now, why);
  release(core, slot);
}

SLUICE_INLINE void Committer::cancel(Core& core, Slot slot, const PolicyCalls& policies) {
  // Room is free that nothing had before: what a relief keeps aside until a request ends may return.
  if (core.row(slot).phase != Phase::waiting) core.last_finish_step = core.step;
  leave_list(core, slot, policies);
  release(core, slot);
  core.steady = false;
}

/// A request that does not end by itself leaves the queue, or the list that it is in.
SLUICE_INLINE void Committer::leave_list(Core& core, Slot slot, const PolicyCalls& policies) {
  const RequestRow& request = core.row(slot);
  if (request.phase == Phase::waiting) {
    policies.table.left_queue(policies.policies, slot, request);
    --core.requests.waiting;
  } else {
    std::erase(request.phase == Phase::running ? core.requests.running : core.requests.preempted, slot);
  }
}

SLUICE_INLINE void Committer::end(Core& core, Slot slot) {
  std::erase(core.requests.running, slot);
  release(core, slot);
  ++core.finished;
}

/// The row's memory and its slot are free again.
SLUICE_INLINE void Committer::release(Core& core, Slot slot) {
  RequestRow& request = core.row(slot);
  drop(core, request);
  request.phase = Phase::ended;
  core.requests.free_slots.push_back(slot);
  --core.requests.alive;
}

SLUICE_INLINE bool Committer::grow_steadily(Core& core, std::span<const Claim> claims, std::int64_t opening) {
  LayerBlocks states{0}; // hidden states that are written out
  if (opening > 0) {
    Footprint growth{core.layout.room(TokenBlocks{opening}), LayerBlocks{0}};
    if (core.policies->is.keeps_hidden)
      for (const Claim& claim : claims) {
        const RequestRow& request = core.row(claim.slot);
        if (request.slack.count() > 0 || request.holding.saved.empty()) continue;
        growth.host +=
            core.footprint(request.holding, request.blocks + TokenBlocks{1}).host - core.footprint(request).host;
        states += core.geometry.hidden_size().room(request.holding.saved.count());
      }
    if (growth.device > core.ledger.device().free() || growth.host > core.ledger.host().free()) return false;
    core.ledger.grow(growth);
  }
  const Tokens last_of_block = core.limits.block_tokens - Tokens{1};
  for (const Claim& claim : claims) {
    RequestRow& request = core.row(claim.slot);
    if (request.slack.count() > 0) {
      request.slack -= Tokens{1};
      continue;
    }
    request.blocks += TokenBlocks{1};
    request.slack = last_of_block;
    if (core.policies->is.finds_released)
      core.prefix.extend(claim.slot, request.computed + Tokens{1}, core.limits.block_tokens);
  }
  moves_.nothing(); // the step before may have swapped a request in
  moves_.to_host = states;
  return true;
}

SLUICE_INLINE bool Committer::look_up(Core& core, std::span<const Claim> claims) {
  bool changed = false;
  for (const Claim& claim : claims) {
    RequestRow& request = core.row(claim.slot);
    if (request.phase != Phase::running)
      changed = core.prefix.look_up(claim.slot, request, core.limits.block_tokens) || changed;
  }
  return changed;
}

} // namespace sluice

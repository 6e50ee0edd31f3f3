// SPDX-License-Identifier: Apache-2.0
// Decide: from a view to a decision. The only place where deciding policies run; it writes nothing but their state.
#pragma once

#include "sluice/core/stopwatch.hpp"
#include "sluice/engine/engine.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>

namespace sluice {

namespace detail {

/// A key of a set of requests, whatever their order: sums of mixed ids can be added in any order, and fast.
constexpr std::uint64_t candidate_key(RequestId id) {
  std::uint64_t z = (std::uint64_t{index(id)} + 1) * 0x9e3779b97f4a7c15u;
  z ^= z >> 32;
  return z * 0xd6e8feb86659fd93u;
}

} // namespace detail

template <class C>
View BasicEngine<C>::view_at(Seconds now) const {
  View view;
  view.now = now;
  view.step = step_;
  view.limits = config_.limits;
  view.geometry = config_.geometry;
  view.rows = rows_;
  view.running = running_;
  view.preempted = preempted_;
  view.waiting = waiting_;
  view.ledger = &ledger_;
  view.plan = &plan_;
  view.finished = finished_;
  view.last_finish_step = last_finish_step_;
  return view;
}

template <class C>
void BasicEngine<C>::decide(Seconds now, Decision& decision) {
  decision.clear();
  const View view = view_at(now);
  gate_returns(view);
  proposal_.clear();
  config_.admission.propose(view, admission_state_, proposal_);
  if (proposal_.claims.empty() && running_.empty() && !preempted_.empty()) {
    // Nobody runs and nobody would: those who were set aside are all there is. They come back whatever the gate says,
    // or they would wait for an end that never comes.
    for (const Slot slot : preempted_) row(slot).may_return = true;
    config_.admission.propose(view, admission_state_, proposal_);
  }
  if constexpr (finds) {
    // What can be found shortens what is pending, which may leave the budget room for somebody behind.
    while (look_up_newcomers()) {
      proposal_.clear();
      config_.admission.propose(view, admission_state_, proposal_);
    }
  }
  decision.claims.swap(proposal_.claims);
  LayerBlocks host_left = ledger_.host().free() + copied_blocks();
  for (const Slot slot : proposal_.leaving) {
    const RequestRow& who = row(slot);
    const LayerBlocks room = footprint_of(who.holding, who.blocks).device;
    const Kept kept = config_.retention.on_preempt(view, who);
    if ((kept == Kept::host || kept == Kept::hidden) && room > host_left) {
      keep_after_all(slot, decision); // its progress would be lost for somebody else's convenience
      continue;
    }
    host_left -= room;
    decision.leaving.push_back(slot);
  }
  if (decision.claims.empty()) { // nobody to make room for: a batch is not emptied by choice
    for (const Slot slot : decision.leaving) keep_after_all(slot, decision);
    decision.leaving.clear();
  }
  if (decision.claims.empty()) return;
  decision.valid = true;
  for (const Claim& claim : decision.claims) decision.candidates += detail::candidate_key(row(claim.slot).id);
  offer_weights(view, decision);
  [[maybe_unused]] const LayerBlocks wanted = needs_.demand;
  place(view, decision);
  if constexpr (offers_weights)
    if (coordination_.node != nullptr) { // what the others are to know of: who runs, and what was wanted
      needs_ = needs_of(decision);
      needs_.running = std::max(needs_.running, needs_.demand);
      needs_.demand = wanted;
    }
}

/// Somebody who was to leave stays. The last of those who were to take its place does not join, and what is computed
/// for it comes out of what the last who join would compute: neither the batch nor its tokens exceed their limits, and
/// who stays makes progress.
template <class C>
void BasicEngine<C>::keep_after_all(Slot slot, Decision& decision) {
  std::vector<Claim>& claims = decision.claims;
  const auto last_joiner = [&] {
    return std::find_if(claims.rbegin(), claims.rend(),
                        [this](const Claim& claim) { return row(claim.slot).phase != Phase::running; });
  };
  while (static_cast<int>(claims.size()) >= config_.limits.batch && last_joiner() != claims.rend())
    claims.erase(std::next(last_joiner()).base());
  Tokens left = config_.limits.batch_tokens;
  for (const Claim& claim : claims) left -= claim.tokens;
  const Tokens wanted = std::min(row(slot).pending(), Tokens{1});
  for (auto last = last_joiner(); left < wanted && last != claims.rend(); last = last_joiner()) {
    const Tokens taken = std::min(last->tokens, wanted - left);
    left += taken;
    last->tokens -= taken;
    if (last->tokens == Tokens{0}) claims.erase(std::next(last).base());
  }
  claims.insert(claims.begin(), Claim{slot, std::clamp(left, Tokens{0}, wanted), Tokens{0}, true});
}

/// What those who would join can find now; whether that changed for anybody. Only they are looked at: a step does not
/// cost more where many wait.
template <class C>
bool BasicEngine<C>::look_up_newcomers() {
  bool changed = false;
  if constexpr (finds) { // also where an engine is instantiated whole
    for (const Claim& claim : proposal_.claims) {
      RequestRow& who = row(claim.slot);
      if (who.phase != Phase::running)
        changed = finder_.look_up(claim.slot, who, config_.limits.block_tokens) || changed;
    }
  }
  return changed;
}

/// Host memory of clean copies of what is on the device too: given up whenever it is wanted.
template <class C>
LayerBlocks BasicEngine<C>::copied_blocks() const {
  LayerBlocks copied{0};
  if constexpr (copies_ahead)
    for (const Slot slot : running_) {
      Holding plain = row(slot).holding;
      plain.copied = Tokens{0};
      copied += footprint_of(row(slot).holding, row(slot).blocks).host - footprint_of(plain, row(slot).blocks).host;
    }
  return copied;
}

template <class C>
void BasicEngine<C>::gate_returns(const View& view) {
  for (const Slot slot : preempted_) {
    RequestRow& who = row(slot);
    who.may_return = config_.relief.may_return(view, who);
  }
}

template <class C>
void BasicEngine<C>::offer_weights(const View& view, const Decision& decision) {
  if constexpr (offers_weights) {
    const auto& predictor = config_.cost.predictor(cost_state_);
    WeightsTask<Predictor> task{view, predictor, decision.claims, LayerBlocks{0}, config_.device_blocks, {}};
    needs_ = needs_of(decision);
    task.demand = needs_.demand;
    task.steady = steady_within(decision, task.demand);
    if (coordination_.lend != nullptr) {
      borrowed_ = coordination_.lend(coordination_.node, coordination_.engine, task.demand, task.own);
      task.own += borrowed_;
    }
    task.lent = lent_layers_;
    task.taken = own_level_;
    levels_.clear();
    config_.weights.offer(task, weights_state_, levels_);
    for (WeightsLevel& level : levels_) level.plan.freed -= config_.geometry.blocks_in(lent_layers_);
    if (coordination_.grant != nullptr) {
      for (WeightsLevel& level : levels_)
        level.step = level_times_.of(predictor, config_.geometry, steady_within(decision, task.own + level.plan.freed),
                                     level.plan);
      granted_level_ = coordination_.grant(coordination_.node, coordination_.engine);
    }
  }
}

/// What the claims need, whether they run or would join.
template <class C>
BatchNeeds BasicEngine<C>::needs_of(const Decision& decision) const {
  BatchNeeds needs;
  const int layers = config_.geometry.layers;
  const Tokens block_tokens = config_.limits.block_tokens;
  Seconds slo{std::numeric_limits<double>::infinity()};
  for (const Claim& claim : decision.claims) {
    const RequestRow& who = row(claim.slot);
    const LayerBlocks now = across_layers(who.blocks_after(claim.tokens, block_tokens), layers);
    needs.demand += across_layers(who.blocks_after(std::max(claim.tokens, claim.reserve), block_tokens), layers);
    if (claim.required) needs.running += now;
    if (needs.first.count() == 0) needs.first = now;
    slo = std::min(slo, who.spec.slo.tbt);
  }
  if (slo < Seconds{std::numeric_limits<double>::infinity()}) needs.slo = slo;
  return needs;
}

/// A steady decode of as many of the claims as `room` holds, those who must run first and in any case.
template <class C>
Work BasicEngine<C>::steady_within(const Decision& decision, LayerBlocks room) const {
  Work steady;
  LayerBlocks taken{0};
  for (const Claim& claim : decision.claims) {
    const RequestRow& who = row(claim.slot);
    taken += across_layers(who.blocks_after(std::max(claim.tokens, claim.reserve), config_.limits.block_tokens),
                           config_.geometry.layers);
    if (taken > room && steady.decodes > 0 && !claim.required) break;
    ++steady.decodes;
    steady.decode_context += who.context() + Tokens{1};
  }
  steady.samples = steady.decodes;
  return steady;
}

/// Whether the weights, asked for those who are left alone, take another level: nobody gives way for one who would only
/// join.
template <class C>
bool BasicEngine<C>::offers_otherwise(const View& view, const Decision& decision) {
  if constexpr (offers_weights) {
    const WeightsPlan before = granted();
    offer_weights(view, decision);
    return !(granted() == before);
  } else {
    return false;
  }
}

/// The level that decisions reckon with: the first offered that is not above what a coordinator granted; none: all
/// weights are resident. Memory of others counts as freed.
template <class C>
WeightsPlan BasicEngine<C>::granted() const {
  WeightsPlan plan;
  if constexpr (offers_weights) {
    const auto found = std::find_if(levels_.begin(), levels_.end(),
                                    [this](const WeightsLevel& level) { return level.plan.level <= granted_level_; });
    if (found != levels_.end())
      plan = found->plan;
    else if (lent_layers_ > 0 && !levels_.empty())
      plan = levels_.back().plan; // what others have of its memory cannot be taken back here
    plan.freed += borrowed_;
  }
  return plan;
}

/// KV memory beside a plan of the weights.
template <class C>
LayerBlocks BasicEngine<C>::capacity_with(const WeightsPlan& weights) const {
  return std::max(LayerBlocks{0}, config_.device_blocks + weights.freed);
}

template <class C>
auto BasicEngine<C>::task_of(const View& view, const Predictor& predictor, const Decision& decision,
                             std::size_t required, bool enforce_slo) const -> Task {
  // Whatever preempted requests hold on the device is given up for those who run, so only their host memory counts.
  LayerBlocks preempted_host{0};
  std::int64_t depleted = 0;
  for (const Slot slot : preempted_) {
    const RequestRow& who = row(slot);
    if (!decision.empties_preempted) preempted_host += footprint_of(who.holding, who.blocks).host;
    if (who.deposit().count() == 0) ++depleted;
  }
  // Those who come back for certain bring theirs along: it is in their own footprint. A may might not, and keeps it.
  if (!decision.empties_preempted && !preempted_.empty())
    for (std::size_t i = 0; i < required; ++i) {
      const RequestRow& who = row(decision.claims[i].slot);
      if (who.phase == Phase::preempted) preempted_host -= footprint_of(who.holding, who.blocks).host;
    }
  // So does that of those whom this very decision sets aside, unless it is dropped with the rest.
  for (const auto& aside : {std::span<const Slot>(decision.leaving), std::span<const Slot>(decision.victims)})
    for (const Slot slot : aside) {
      const RequestRow& who = row(slot);
      if (who.phase == Phase::running && !decision.empties_preempted &&
          config_.retention.on_preempt(view, who) != Kept::nothing)
        preempted_host += footprint_of(who.holding, who.blocks).host;
    }
  const LayerBlocks capacity = ledger_.device().capacity() + (capacity_with(granted()) - kv_capacity_);
  return Task{view,      decision.claims,         required,    capacity, ledger_.host().capacity() - preempted_host,
              predictor, config_.replan.window(), enforce_slo, depleted, config_.geometry.stream_of(granted())};
}

template <class C>
void BasicEngine<C>::place(const View& view, Decision& decision) {
  auto& claims = decision.claims;
  std::size_t required = 0;
  while (required < claims.size() && claims[required].required) ++required;
  bool stale = config_.replan.due(view, replan_state_, decision.candidates);
  if constexpr (offers_weights) stale = stale || !(granted() == plan_.weights);
  bool enforce_slo = true;
  const auto& predictor = config_.cost.predictor(cost_state_);
  for (;;) {
    const Task task = task_of(view, predictor, decision, required, enforce_slo);
    Verdict verdict = stale ? Verdict{} : apply_plan(task, decision);
    if (!verdict.feasible) {
      verdict = solve(task, decision);
      decision.new_plan = verdict.feasible;
      decision.in_flight = next_plan_.in_flight;
    }
    if (verdict.feasible && required + verdict.joined > 0) {
      claims.resize(required + verdict.joined); // optional claims that found no place are dropped
      break;
    }
    stale = true;
    if (verdict.feasible || required == 0) {
      // Only optional claims were proposed and none found a place: the first of them runs alone, as well as it can.
      claims.resize(1);
      claims.front().required = true;
      required = 1;
      enforce_slo = false;
      offer_weights(view, decision);
    } else if (required == 1 && enforce_slo) {
      // One request is left. Its SLO cannot be met by setting somebody else aside.
      claims.resize(1);
      enforce_slo = false;
      offer_weights(view, decision); // what the others asked of the weights was not for it
    } else if (required == 1 && !preempted_.empty() && !decision.empties_preempted) {
      decision.empties_preempted = true; // it runs, and what others keep on the host is computed again: nobody is lost
    } else if (required == 1) {
      decision.unplaceable.push_back(claims.front().slot);
      claims.clear();
      break;
    } else {
      const bool with_optional = claims.size() > required;
      claims.resize(
          required); // all optional claims are dropped, or someone would join in a step in which another gives way
      if (with_optional && offers_otherwise(view, decision)) continue;
      drop_victim(view, decision, required);
    }
  }
  config_.admission.settle(view, claims);
}

template <class C>
void BasicEngine<C>::drop_victim(const View& view, Decision& decision, std::size_t& required) {
  auto& claims = decision.claims;
  const std::size_t chosen = config_.relief.choose(view, relief_state_, claims);
  SLUICE_ASSERT(chosen < claims.size(), "Relief chooses one of the candidates");
  decision.victims.push_back(claims[chosen].slot);
  claims.erase(claims.begin() + static_cast<std::ptrdiff_t>(chosen));
  --required;
}

/// The plan in force, applied to the claims: do they still fit, and how many optional claims with them?
template <class C>
Verdict BasicEngine<C>::apply_plan(const Task& task, Decision& decision) {
  const Tokens block_tokens = config_.limits.block_tokens;
  const int layers = config_.geometry.layers;
  Footprint used;
  bool away = false;
  std::size_t placed = 0;
  LayerBlocks in_flight{0};
  streams_.clear();
  for (const Claim& claim : task.claims) {
    const RequestRow& who = row(claim.slot);
    const bool required = placed < task.required;
    if (!covered(who)) {
      if (required) return {};
      break; // an optional claim that the plan has not seen waits for the next plan
    }
    Holding holding = who.plan_serial == plan_serial_ ? who.holding : plan_.unseen;
    holding.copied = Tokens{0}; // given up where it is in the way
    const TokenBlocks blocks =
        who.blocks_after(required ? claim.tokens : std::max(claim.tokens, claim.reserve), block_tokens);
    if (holding.all_resident()) {
      used.device += layout_type::room(blocks, layers, layers);
    } else {
      away = true;
      used = used + footprint_of(holding, blocks);
      stream_head(holding, static_cast<double>(holding.head_blocks(blocks, block_tokens).count()),
                  config_.geometry.hidden_size());
    }
    LayerBlocks needed = used.device;
    if (away) {
      LayerArray loads;
      Pipeline pipeline;
      pipeline.compute_s = {compute_.data(), static_cast<std::size_t>(layers)};
      pipeline.streams = streams_;
      if (placed + 1 >= task.required) { // the required claims stand or fall together
        detail::layer_loads(pipeline, loads);
        in_flight = LayerBlocks{static_cast<std::int64_t>(std::ceil(
            detail::in_flight_blocks<transfer_type>({loads.data(), static_cast<std::size_t>(layers)}, streams_)))};
        needed += in_flight;
      }
    }
    if (needed > task.device_budget || used.host > task.host_budget) {
      if (required)
        return Verdict::infeasible(needed > task.device_budget ? Binding::device_memory : Binding::host_memory);
      break;
    }
    decision.in_flight = in_flight;
    ++placed;
  }
  return {true, placed - task.required, Binding::none};
}

template <class C>
Verdict BasicEngine<C>::solve(const Task& task, Decision& decision) {
  if constexpr (delivery_type::deposits) advance_deliveries(task.view.now);
  [[maybe_unused]] const Stopwatch stopwatch;
  next_plan_.expires_at_step = std::numeric_limits<std::int64_t>::max();
  next_plan_.effort = 0;
  const Verdict verdict = config_.placement.solve(task, placement_state_, next_plan_);
  next_plan_.candidates = decision.candidates;
  next_plan_.made_at_step = step_;
  next_plan_.weights = granted();
  Seconds virtual_time{0}; // in real time it has passed already
  if constexpr (!real_time) virtual_time = config_.lookahead.planning_time(next_plan_.effort);
  decision.planning += virtual_time;
  if constexpr (!Observers::none) {
    const Seconds wall = stopwatch.elapsed();
    if constexpr (plans_async)
      if (imagined_) imagined_plans_.push_back({next_plan_, wall});
    const Seconds on_clock = real_time ? wall : virtual_time;
    observe([&](const auto& observer, auto& state) { observer.planned(state, task.view, next_plan_, on_clock, wall); });
  }
  return verdict;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// step: one iteration of an engine, from its decision to its tokens.
#pragma once

#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/prepared.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/policies.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace sluice {

/// A policy of the composition learns from measured times.
template <class C>
inline constexpr bool learns =
    !std::is_empty_v<typename C::replan_type::State> || !std::is_empty_v<typename C::cost_type::State>;

// report_iteration: tells observers about an iteration that has run.

/// `before`: what the previous iteration left on the link, for observers that replay iterations.
template <class C>
void report_iteration(Policies<C>& policies, typename C::backend_type& backend, const Core& core, Moves& moves,
                      const Decision& decision, const Prepared& prepared, const Iteration& iteration, Seconds start,
                      const IterationCost& cost, const typename C::transfer_type::State& before) {
  constexpr bool replays = Policies<C>::observers_type::replays;
  IterationRecord record;
  record.step = core.step;
  record.start = start - prepared.planning;
  record.duration = cost.duration + prepared.planning;
  record.stall = cost.stall;
  record.planning = prepared.planning;
  record.batch = decision.claims;
  record.rows = core.requests.rows;
  if constexpr (replays && is_real_time<typename C::backend_type>) // everything that moved, not only the plan's streams
    moves.name_every_stream(core.requests.rows.size());
  record.stream_slots = moves.stream_slots;
  record.hosted = prepared.work.hosted.decodes();
  record.decodes = prepared.work.decodes + record.hosted;
  record.rebuilding = static_cast<std::int64_t>(moves.rebuilds.size());
  record.tokens = prepared.work.tokens() + Tokens{record.hosted};
  record.running = static_cast<std::int64_t>(core.requests.running.size());
  record.waiting = core.requests.waiting;
  record.preempted = static_cast<std::int64_t>(core.requests.preempted.size());
  record.device_used = core.ledger.device().used();
  record.device_capacity = core.ledger.device().capacity();
  record.in_flight = LayerBlocks{static_cast<std::int64_t>(std::max(0.0, prepared.room))};
  record.host_used = core.ledger.host().used();
  record.to_device = moves.to_device;
  record.to_host = moves.to_host;
  record.from_tier = moves.from_tier;
  record.to_tier = moves.to_tier;
  const WeightStream& weights = prepared.weights;
  record.weights = Bytes{static_cast<std::int64_t>((weights.blocks * weights.layers.count() + moves.returned_blocks) *
                                                   static_cast<double>(core.geometry.layer_block_bytes.count()))};
  record.repeated = prepared.repeated;
  record.plan = &core.plan;
  if constexpr (replays) {
    const auto evaluate = [&](TimelineSink& sink) {
      auto again = before;
      backend.template replay<typename C::transfer_type>(iteration, again, sink);
    };
    policies.tell(events::Iterated{record, TimelineReplay{evaluate}});
  } else {
    policies.tell(events::Iterated{record, TimelineReplay{}});
  }
}

template <class C>
Stepped BasicEngine<C>::step() {
  const Begun begun = begin();
  if (begun == Begun::under_way) finish();
  if (begun == Begun::failed || !status_.ok()) return Stepped::failed;
  return begun == Begun::idle ? Stepped::idle : Stepped::ran;
}

template <class C>
Begun BasicEngine<C>::begin() {
  try {
    return decide_and_commit();
  } catch (...) {
    fail_with_thrown();
    return Begun::failed;
  }
}

template <class C>
void BasicEngine<C>::finish(const Surroundings& around) {
  try {
    run_iteration(around);
  } catch (...) {
    fail_with_thrown();
  }
}

template <class C>
Begun BasicEngine<C>::decide_and_commit() {
  move_idle_blocks(); // first: what arrives in a tier may be what a request waits for
  if constexpr (Steady::possible)
    if (core_.carry_over.steady() &&
        Steady::stands(policies_, decision_, view(), FactsWriter<C>(core_), draft_, calls()) &&
        grow_steadily(core_, decision_.claims, steady_.opening(), commit_.moves)) {
      Steady::prepare(core_, prepared_);
      if constexpr (has_tiers<C>) prepare_transfers();
      return Begun::under_way;
    }
  core_.carry_over.deciding();
  if (!status_.ok()) return Begun::failed;
  bool repeated = false;
  Seconds planning = source_.take(parts(), repeated);
  if (!decision_.valid) return Begun::idle;
  bool committed = commit(core_, decision_, draft_, calls(), now(), commit_);
  if (!committed && draft_.made_ahead) { // the plan was made for memory as it was then: the engine decides anew
    planning = planning + detail::decide_now(parts());
    if (!decision_.valid) return Begun::idle;
    committed = commit(core_, decision_, draft_, calls(), now(), commit_);
  }
  if (!committed) {
    status_ = commit_.error;
    return Begun::failed;
  }
  if (decision_.claims.empty()) return alive() > 0 ? Begun::again : Begun::idle; // a refusal: decide again
  if (core_.carry_over.take_stale_prefetches()) { // streamed weights suit any batch; a plan's remaining moves stay
    const double background = transfer_.background_blocks;
    transfer_.clear();
    transfer_.background_blocks = background;
  }
  gather_work(core_, decision_, commit_.moves, prepared_);
  if constexpr (has_tiers<C>) // every request waits for a load
    if (prepared_.work.tokens().count() == 0 && commit_.moves.moves_nothing() && next_load() < never_due)
      return Begun::idle;
  prepare_transfers();
  prepared_.planning = planning;
  prepared_.repeated = repeated;
  if constexpr (is_real_time<backend_type>) { // it runs from here on, until `finish`
    prepared_.launched = now();
    const View view = core_.view(prepared_.launched);
    const Iteration iteration = iteration_in(view, {});
    source_.launching(parts(), iteration, transfer_);
    backend_.template launch<transfer_type>(iteration);
    if constexpr (C::retention_type::finds_released) tell_taken(core_);
  }
  return Begun::under_way;
}

template <class C>
void BasicEngine<C>::prepare_transfers() {
  prepare(core_, commit_.moves, transfer_.background_blocks, prepared_);
  if constexpr (has_tiers<C>) launch_writes(core_, commit_.moves, prepared_, now());
  if constexpr (CopiesAhead<typename C::retention_type>)
    copy_ahead(core_, decision_.next, calls(), now(), commit_.moves, prepared_);
  transfer_.background_blocks = 0;
}

template <class C>
void BasicEngine<C>::run_iteration(const Surroundings& around) {
  const Seconds start = is_real_time<backend_type> ? prepared_.launched : now();
  const View view = core_.view(start);
  const Iteration iteration = iteration_in(view, around);
  [[maybe_unused]] TransferState before;
  if constexpr (learns<C> || All::observers_type::replays) before = transfer_;
  if constexpr (!is_real_time<backend_type>) backend_.template launch<transfer_type>(iteration);
  const IterationCost cost = backend_.template wait<transfer_type>(iteration, transfer_);
  if constexpr (learns<C>)
    if (!is_real_time<backend_type> || prepared_.computes()) { // a real one may have waited for loads alone
      TransferState evaluated = before;
      learn(iteration, cost, evaluated);
    }
  if constexpr (All::template hears<events::Iterated>)
    report_iteration<C>(policies_, backend_, core_, commit_.moves, decision_, prepared_, iteration, start, cost,
                        before);

  const bool was_steady = core_.carry_over.steady();
  if constexpr (EndsRequests<backend_type>)
    accounts_.take(backend_.outcomes(), core_, decision_, draft_, calls(), now(),
                   [this](Slot slot) { source_.forget(slot); });
  if (Steady::possible && was_steady)
    steady_.count_opening(accounts_.account_steadily(core_, decision_.claims, now(), steady_.tightest(), policies_));
  else
    accounts_.account(core_, decision_.claims, now(), policies_);
  if constexpr (has_tiers<C>) {
    pass_iteration(core_, cost.duration, now(), commit_.moves, prepared_, transfer_.background_blocks, calls());
    offer_to_tiers(core_, decision_.claims, now(), calls());
  }
  if constexpr (keeps_on_host<C>) keep_on_host(decision_.claims, accounts_.finished());
  source_.accounted(parts(), start, cost.duration);
  accounts_.end_finished(core_, draft_, now(), policies_, [this](Slot slot) { source_.forget(slot); });
  if constexpr (Steady::possible)
    if (!was_steady)
      core_.carry_over.ran(
          steady_.remember(core_, commit_.moves, decision_, draft_, prepared_, transfer_.background_blocks));
}

/// Tells the backend what its host keeps of requests that ran, and of those that end. (clang 14 instantiates it for
/// engines that the constraint excludes, too, where an engine is instantiated explicitly.)
template <class C>
void BasicEngine<C>::keep_on_host(std::span<const Claim> ran, std::span<const Slot> ended) requires keeps_on_host<C> {
  if constexpr (keeps_on_host<C>) {
    constexpr bool asks_write = C::caching_type::writes != Writes::evicted;
    if ((!asks_write && ended.empty()) || !backend_.host_tier_evicts()) return;
    const CachingTable& caching = *policy_table<C>.caching;
    const View view = core_.view(now());
    kept_.clear();
    if constexpr (asks_write)
      for (const Claim& claim : ran) {
        const RequestRow& request = core_.row(claim.slot);
        kept_.push_back({.slot = claim.slot, .id = request.id, .behind = true});
        kept_.back().waited = C::caching_type::writes == Writes::waited;
        kept_.back().tokens = caching.write(&policies_, view, request);
      }
    for (const Slot slot : ended) {
      RequestRow request = core_.row(slot);
      request.phase = Phase::ended;
      KeptKv& kept = kept_.emplace_back(KeptKv{.slot = slot, .id = request.id});
      if constexpr (asks_write)
        kept.tokens = caching.write(&policies_, view, request);
      else if constexpr (C::retention_type::finds_released) // it goes when its blocks are taken
        kept.tokens = Tokens{0};
      const Worth worth = caching.worth(&policies_, view, request);
      kept.worth = worth.score;
      kept.session = request.spec.session;
      if (caching.uses_hints.keep || caching.uses_hints.release) kept.stays = worth.kept;
      // Only a session's next request ends a pin early: without one, the client must have said how long. A device that
      // keeps released blocks has the pins.
      if constexpr (C::retention_type::finds_released) continue;
      if (kept.session != 0 || (caching.uses_hints.ttl && request.spec.whole(not_a_policy).hints.ttl.count() > 0))
        kept.pins_for = worth.pinned;
    }
    backend_.keep(kept_);
  }
}

template <class C>
template <class Sink>
Seconds BasicEngine<C>::predict(const Surroundings& around, Sink&& sink) requires Predicts<typename C::backend_type> {
  TransferState state = transfer_;
  const View view = core_.view(now());
  return backend_.template predict<transfer_type>(iteration_in(view, around), state, sink).duration;
}

template <class C>
Seconds BasicEngine<C>::next_due() const {
  Seconds next = never_due;
  if constexpr (C::delivery_type::deposits)
    for (const auto* list : {&core_.requests.running, &core_.requests.preempted})
      for (const Slot slot : *list) next = std::min(next, policies_.delivery.next_due(core_.row(slot)));
  return std::min(next, next_load());
}

template <class C>
void BasicEngine<C>::release_due(Seconds until) {
  if constexpr (C::delivery_type::deposits) {
    if (next_due() > until) return;
    TokenAccounts<C>::advance(core_, policies_, until);
    if constexpr (KeepsRequests<backend_type>) backend_.released(until);
  }
}

/// The prepared iteration, in the backend's form. `view`: at its start.
template <class C>
Iteration BasicEngine<C>::iteration_in(const View& view, const Surroundings& around) const {
  const Moves& moves = commit_.moves;
  return {view,
          prepared_.work,
          decision_.claims,
          moves.streams,
          prepared_.weights,
          prepared_.room,
          moves.urgent_blocks,
          moves.first_blocks,
          prepared_.urgent_out,
          prepared_.background,
          moves.written_blocks,
          moves.returned_blocks,
          around,
          core_.prefix.shared()};
}

/// Gives predicted and measured times to the policies that learn from them. A repeated iteration has no prediction.
/// `before`: what the previous iteration left on the link; changed to what the prediction leaves.
template <class C>
void BasicEngine<C>::learn(const Iteration& iteration, const IterationCost& cost, TransferState& before) {
  LayerArray compute{};
  const auto& predictor = policies_.predictor();
  const IterationCost predicted = evaluate<transfer_type>(iteration, predictor, compute, before);
  if (!prepared_.repeated) policies_.replan.observe(policies_.replan_state, predicted.duration, cost.duration);
  std::span<const double> layers_s;
  if constexpr (MeasuresLayers<backend_type>) layers_s = backend_.computed_layers();
  policies_.cost.observe(policies_.cost_state,
                         Observation{iteration.work, core_.geometry.layers, !prepared_.repeated,
                                     cost.duration - cost.stall, cost.link, predicted.link, layers_s});
}

} // namespace sluice

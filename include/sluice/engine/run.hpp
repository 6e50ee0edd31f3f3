// SPDX-License-Identifier: Apache-2.0
// Run: the iteration on the backend, its tokens, their delivery, and who has ended.
#pragma once

#include "sluice/engine/checks.hpp"
#include "sluice/engine/engine.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace sluice {

template <class C>
BasicEngine<C>::BasicEngine(Checked, Config&& config)
    : config_(std::move(config)), backend_(std::move(config_.backend)) {
  kv_capacity_ = capacity_with({});
  ledger_ = Ledger{kv_capacity_, config_.host_blocks};
  // The room that one layer of a block takes is what lies together.
  const int layers = config_.geometry.layers;
  config_.geometry.segment_layers = static_cast<int>(layout_type::room(TokenBlocks{1}, 1, layers).count());
  plan_.made_at_step = -1;
  if constexpr (finds)
    finder_ = detail::Finder<true>(TokenBlocks{config_.device_blocks.count() / config_.geometry.layers});
}

template <class C>
Expected<BasicEngine<C>> BasicEngine<C>::make(Config config) {
  LayerBlocks most = config.device_blocks;
  if constexpr (offers_weights) // of weights that can all stream
    if (config.geometry.layer_block_bytes.count() > 0) most += config.geometry.blocks_in(config.geometry.layers);
  Status status = detail::check_setup(config.limits, config.geometry, most, config.host_blocks);
  if (!status.ok()) return status.error();
  return Expected<BasicEngine>{std::in_place, Checked{}, std::move(config)};
}

template <class C>
Expected<RequestId> BasicEngine<C>::submit(const RequestSpec& spec, std::span<const BlockKey> prompt_keys) {
  const auto id = RequestId{next_id_++};
  const auto refused = [&](const Status& status) {
    observe([&](const auto& observer, auto& state) { observer.refused(state, id, spec, now(), status.error().what); });
    return status.error();
  };
  if (const Status status = detail::check_length(id, spec, config_.limits); !status.ok()) return refused(status);
  // Alone, at its longest, with the least device memory that the placement could choose: does it fit?
  const Holding least = config_.placement.least(config_.geometry.layers);
  const TokenBlocks blocks = blocks_for(spec.prompt + spec.output - Tokens{1}, config_.limits.block_tokens);
  Footprint room = footprint_of(least, blocks);
  LayerArray loads{};
  const auto away = static_cast<double>(blocks.count());
  const std::array<LayerStream, 2> stream{LayerStream{least.host, away, least.written_back ? least.host : LayerSet{}},
                                          LayerStream{least.hidden, config_.geometry.hidden_size().blocks(away)}};
  for (const LayerStream& each : stream)
    each.layers.for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] += each.blocks; });
  room.device += LayerBlocks{static_cast<std::int64_t>(std::ceil(detail::in_flight_blocks<transfer_type>(
      {loads.data(), static_cast<std::size_t>(config_.geometry.layers)}, stream)))};
  LayerBlocks lendable = config_.weights.most_freed(config_.geometry);
  if constexpr (PromisesRoom<weights_type>) {
    const auto& predictor = config_.cost.predictor(cost_state_);
    const Expected<LayerBlocks> promised = config_.weights.promise(Submission<Predictor>{
        spec, now(), config_.limits, config_.geometry, predictor, room.device, config_.device_blocks});
    if (!promised) return refused(detail::refusal_of(id, promised.error()));
    lendable = *promised;
  }
  WeightsPlan lending;
  lending.freed = lendable;
  const LayerBlocks growth = capacity_with(lending) - kv_capacity_;
  if (const Status status = detail::check_room(id, room, ledger_, growth); !status.ok()) return refused(status);

  Slot slot;
  if (free_slots_.empty()) {
    slot = Slot{static_cast<std::uint32_t>(rows_.size())};
    rows_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    row(slot) = RequestRow{};
  }
  RequestRow& who = row(slot);
  who.id = id;
  who.spec = spec;
  who.resident_layers = config_.geometry.layers;
  if constexpr (finds) finder_.enter(slot, id, prompt_keys);
  prompt_tokens_ += static_cast<double>(spec.prompt.count());
  ++accepted_;
  ++waiting_;
  ++alive_;
  quiet_ = false;
  config_.admission.enter(admission_state_, slot, who);
  observe([&](const auto& observer, auto& state) { observer.submitted(state, who); });
  return id;
}

template <class C>
int BasicEngine<C>::most_lent() const {
  if constexpr (LendsWeights<weights_type>) {
    const auto& predictor = config_.cost.predictor(cost_state_);
    constexpr double nominal = 512; // before anybody has come
    const double mean = accepted_ > 0 ? prompt_tokens_ / static_cast<double>(accepted_) : nominal;
    const double budget = static_cast<double>(config_.limits.batch_tokens.count());
    const ChunkWork prompt{Tokens{static_cast<std::int64_t>(std::clamp(mean, 1.0, budget))}, Tokens{0}};
    Work prefill;
    prefill.chunks = {&prompt, 1};
    prefill.samples = 1;
    const LinkCost link = predictor.link();
    const double transfer_s = static_cast<double>(config_.geometry.layer_weight_bytes.count()) / link.rate.count();
    const int layers = config_.geometry.layers;
    return config_.weights.most_lent(layers, transfer_s, compute_time(predictor, prefill, layers).count());
  } else {
    return 0;
  }
}

template <class C>
void BasicEngine<C>::rest(LayerBlocks borrowed) {
  SLUICE_ASSERT(alive_ == 0, "who is alive uses it");
  LayerBlocks freed = plan_.weights.freed - borrowed_in_force_;
  if constexpr (LendsWeights<weights_type>)
    if (own_level_ > 0 && config_.device_blocks >= LayerBlocks{0}) {
      // Nobody's KV lies there. The layers are as far away as they were: they come back with the next plan.
      freed = LayerBlocks{0};
      lent_in_force_ += own_level_;
      most_lent_layers_ = std::max(most_lent_layers_, lent_in_force_);
      own_level_ = 0;
    }
  plan_.weights.freed = freed + borrowed;
  borrowed_ = borrowed_in_force_ = borrowed;
  const LayerBlocks capacity = capacity_with(plan_.weights);
  ledger_.resize_device(ledger_.device().capacity() + (capacity - kv_capacity_));
  kv_capacity_ = capacity;
  forget_prefetches();
  quiet_ = false;
}

template <class C>
Stepped BasicEngine<C>::step() {
  const Begun begun = begin();
  if (begun == Begun::under_way) finish();
  return begun == Begun::idle ? Stepped::idle : Stepped::ran;
}

template <class C>
Begun BasicEngine<C>::begin() {
  if constexpr (may_be_quiet)
    if (quiet_ && begin_quietly()) return Begun::under_way;
  quiet_ = false;
  bool repeated = false;
  const Seconds planning = take_decision(repeated);
  if (!decision_.valid) return Begun::idle;
  commit(decision_);
  if (decision_.claims.empty()) return alive_ > 0 ? Begun::again : Begun::idle; // somebody was refused: decide again
  gather_work();
  prepare(planning, repeated);
  return Begun::under_way;
}

template <class C>
template <class Sink>
Seconds BasicEngine<C>::predict(const Surroundings& around, Sink&& sink) {
  predicted_ahead_ = transfer_state_;
  const View view = view_at(now());
  return backend_.template predict<transfer_type>(iteration_in(view, around), predicted_ahead_, sink).duration;
}

template <class C>
void BasicEngine<C>::finish(const Surroundings& around) {
  [[maybe_unused]] const bool was_quiet = quiet_;
  run(around);
  if constexpr (may_be_quiet)
    if (!was_quiet) remember_quiet();
}

/// Will the next step be this one once more, one token on? If everybody in the batch decoded, all of it resident,
/// nobody has ended, is preempted or was left out for want of tokens, then the admission would claim the same, and the
/// plan in force would take the same: room only shrinks until something happens.
template <class C>
void BasicEngine<C>::remember_quiet() {
  // What others of a node need may change any time, so that weights which could give way are asked in every step.
  const bool asks = coordination_.lend != nullptr || coordination_.grant != nullptr;
  quiet_ = !(offers_weights && asks) && chunks_.empty() && streams_.empty() && rebuilds_.empty() &&
           plan_.weights.streamed.empty() && preempted_.empty() && transfer_state_.background_blocks <= 0 &&
           !plan_changed_ && decision_.victims.empty() && decision_.leaving.empty() &&
           decision_.claims.size() == running_.size() && work_.decodes == static_cast<std::int64_t>(running_.size());
  full_blocks_ = 0;
  for (std::size_t i = 0; quiet_ && i < running_.size(); ++i) {
    const RequestRow& who = row(running_[i]);
    quiet_ = who.holding.all_resident();
    full_blocks_ += who.slack.count() == 0 ? 1 : 0;
  }
}

/// The beginning of that step, without asking again: one pass for the blocks (and at its end one for the tokens).
/// False, with nothing done, where a plan is due or a block is missing.
template <class C>
bool BasicEngine<C>::begin_quietly() {
  const View view = view_at(now());
  if (config_.replan.due(view, replan_state_, decision_.candidates)) return false;
  if (full_blocks_ > 0) {
    const int layers = config_.geometry.layers;
    const Footprint growth{layout_type::room(TokenBlocks{full_blocks_}, layers, layers), LayerBlocks{0}};
    if (growth.device > ledger_.device().free()) return false;
    ledger_.grow(growth);
  }
  const Tokens last_of_block = config_.limits.block_tokens - Tokens{1};
  for (const Claim& claim : decision_.claims) {
    RequestRow& who = row(claim.slot);
    if (who.slack.count() > 0) {
      who.slack -= Tokens{1};
      continue;
    }
    who.blocks += TokenBlocks{1};
    who.slack = last_of_block;
    if constexpr (finds) finder_.extend(claim.slot, who.computed + Tokens{1}, config_.limits.block_tokens);
  }
  work_.decode_context += Tokens{work_.decodes};
  leaving_ = arriving_ = moved_to_device_ = moved_to_host_ = LayerBlocks{0};
  urgent_blocks_ = first_blocks_ = written_blocks_ = 0; // the step before may have swapped somebody in
  launched_ = {};                                       // nothing moves: no need to `prepare`
  launched_.room = static_cast<double>(ledger_.device().free().count());
  return true;
}

/// `account` where everybody decoded; and how many will open a block with their next token.
template <class C>
void BasicEngine<C>::account_decodes(Seconds now) {
  const auto sink = delivery_sink();
  RequestRow* const rows = rows_.data();
  std::int64_t full = 0;
  for (const Claim& claim : decision_.claims) {
    RequestRow& who = rows[index(claim.slot)];
    who.computed += Tokens{1};
    if constexpr (finds) finder_.seal(claim.slot, who.computed, config_.limits.block_tokens);
    who.generated += Tokens{1};
    who.last_token = now;
    full += who.slack.count() == 0 ? 1 : 0;
    const bool ends = who.generated >= who.spec.output;
    config_.delivery.generated(who, now, sink);
    if (ends) finished_rows_.push_back(claim.slot);
  }
  full_blocks_ = full;
}

/// The decision to run now; what the iteration waited for it.
template <class C>
Seconds BasicEngine<C>::take_decision(bool& repeated) {
  if constexpr (plans_async) {
    if (async_) {
      if (!backend_.async_done() && repeat_last()) {
        repeated = true;
        return Seconds{0};
      }
      const Seconds asked = now();
      collect_async(); // where nothing can run without it, everybody waits
      if (decision_.valid && still_fits(decision_)) return now() - asked;
    }
  } else if constexpr (lookahead_type::ahead) {
    if (pending_.valid) {
      if (pending_.ready > now()) {
        if (repeat_last()) {
          repeated = true;
          return Seconds{0};
        }
        // Nothing can run without it: everybody waits.
        const Seconds waited = pending_.ready - now();
        backend_.idle_until(pending_.ready);
        std::swap(decision_, pending_);
        pending_.valid = false;
        if (still_fits(decision_)) return waited;
      } else {
        std::swap(decision_, pending_);
        pending_.valid = false;
        if (still_fits(decision_)) return Seconds{0};
      }
    }
  }
  decide(now(), decision_);
  if (decision_.planning.count() > 0) backend_.idle_until(now() + decision_.planning);
  return decision_.planning;
}

/// The same batch and plan, one token on, no policy asked: legal only where everybody's next block has room.
template <class C>
bool BasicEngine<C>::repeat_last() {
  decision_.clear();
  LayerBlocks growth{0};
  [[maybe_unused]] std::vector<LayerStream> streams;
  for (const Slot slot : running_) {
    const RequestRow& who = row(slot);
    if (who.computed.count() == 0 || who.pending().count() != 1) return false; // it has not been part of an iteration
    decision_.claims.push_back({slot, Tokens{1}, Tokens{0}, true});
    const TokenBlocks blocks = who.blocks_after(Tokens{1}, config_.limits.block_tokens);
    growth += (footprint_of(who.holding, blocks) - footprint_of(who.holding, who.blocks)).device;
    if constexpr (real_time) add_streams(streams, who.holding, blocks);
  }
  if constexpr (real_time) growth += in_flight_of(streams); // of more tokens than the plan was made for
  if (decision_.claims.empty() || growth > ledger_.device().free()) return false;
  decision_.valid = true;
  return true;
}

/// What a request of so many blocks streams in an iteration, held so.
template <class C>
void BasicEngine<C>::add_streams(std::vector<LayerStream>& streams, const Holding& holding, TokenBlocks blocks) const {
  const auto head = static_cast<double>(holding.head_blocks(blocks, config_.limits.block_tokens).count());
  if (!holding.host.empty()) streams.push_back({holding.host, head, holding.written_back ? holding.host : LayerSet{}});
  if (!holding.hidden.empty()) streams.push_back({holding.hidden, config_.geometry.hidden_size().blocks(head)});
}

/// Device blocks that the transfer rule needs for them. A backend that moves real bytes cannot do with fewer, where a
/// simulated one reckons with what there is.
template <class C>
LayerBlocks BasicEngine<C>::in_flight_of(std::span<const LayerStream> streams) const {
  LayerArray loads{};
  for (const LayerStream& stream : streams)
    stream.layers.for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] += stream.blocks; });
  return LayerBlocks{static_cast<std::int64_t>(std::ceil(detail::in_flight_blocks<transfer_type>(
      {loads.data(), static_cast<std::size_t>(config_.geometry.layers)}, streams)))};
}

/// A decision made ahead, held against what happened meanwhile: those that ended are gone from it already; does what is
/// left still fit both memories? If not it is discarded, and one is made now.
template <class C>
bool BasicEngine<C>::still_fits(Decision& decision) {
  if (decision.claims.empty()) return false;
  Footprint all;
  LayerBlocks in_flight = decision.in_flight;
  [[maybe_unused]] std::vector<LayerStream> streams;
  for (std::size_t i = 0; i < decision.claims.size(); ++i) {
    const Claim& claim = decision.claims[i];
    const RequestRow& who = row(claim.slot);
    if (claim.tokens > who.pending()) return false;
    Holding holding = who.holding;
    holding.copied = Tokens{0}; // copies are given up for it
    if (decision.new_plan) {
      holding = next_plan_.unseen;
      for (const RequestPlan& planned : next_plan_.requests)
        if (planned.slot == claim.slot) holding = planned.holding;
    } else if (who.phase != Phase::running) {
      if (!covered(who)) return false;
      holding = holding_in_force(who);
    }
    const TokenBlocks blocks = who.blocks_after(claim.tokens, config_.limits.block_tokens);
    all = all + footprint_of(holding, blocks);
    if constexpr (real_time) add_streams(streams, holding, blocks);
  }
  if constexpr (real_time) in_flight = std::max(in_flight, in_flight_of(streams));
  // Running requests that it does not name hold memory too: somebody joined or was given up meanwhile.
  if (decision.claims.size() < running_.size())
    for (const Slot slot : running_) {
      const auto named = [slot](const auto& list, auto&& slot_of) {
        return std::any_of(list.begin(), list.end(), [&](const auto& item) { return slot_of(item) == slot; });
      };
      const auto self = [](Slot s) { return s; };
      if (!named(decision.claims, [](const Claim& claim) { return claim.slot; }) && !named(decision.leaving, self) &&
          !named(decision.victims, self) && !named(decision.unplaceable, self))
        return false;
    }
  LayerBlocks device = ledger_.device().capacity();
  if (decision.new_plan) device += capacity_with(next_plan_.weights) - kv_capacity_;
  return all.device + in_flight <= device && all.host <= ledger_.host().capacity();
}

/// What the iteration moves, and the room it has.
template <class C>
void BasicEngine<C>::prepare(Seconds planning, bool repeated) {
  const int layers = config_.geometry.layers;

  // Room for blocks in flight: what is free, less what was evicted and has not crossed yet. Where that is too little,
  // evictions go first.
  double background = transfer_state_.background_blocks + static_cast<double>(leaving_.count());
  double room = static_cast<double>((ledger_.device().free() + arriving_).count()) - background;
  double urgent_out = 0;
  if (!streams_.empty() || background > 0) {
    LayerArray loads;
    Pipeline pipeline;
    pipeline.compute_s = {compute_.data(), static_cast<std::size_t>(layers)};
    pipeline.streams = streams_;
    detail::layer_loads(pipeline, loads);
    const double held =
        detail::in_flight_blocks<transfer_type>({loads.data(), static_cast<std::size_t>(layers)}, streams_);
    urgent_out = std::clamp(held - room, 0.0, background);
    background -= urgent_out;
    room = std::max(room + urgent_out, held);
  }
  transfer_state_.background_blocks = 0;
  if constexpr (copies_ahead) {
    double in_blocks = urgent_blocks_;
    for (const LayerStream& stream : streams_) in_blocks += stream.blocks * stream.layers.count();
    const double out_blocks = urgent_out + background + written_blocks_ + detail::written_back_blocks(streams_);
    background += static_cast<double>(copy_ahead(view_at(now()), out_blocks, in_blocks).count());
  }
  launched_ = {config_.geometry.stream_of(plan_.weights), room, urgent_out, background, planning, repeated};
}

/// The iteration made ready, as a backend is told of it. `view`: of its start.
template <class C>
Iteration BasicEngine<C>::iteration_in(const View& view, const Surroundings& around) const {
  return {view,
          work_,
          decision_.claims,
          streams_,
          launched_.weights,
          launched_.room,
          urgent_blocks_,
          first_blocks_,
          launched_.urgent_out,
          launched_.background,
          written_blocks_,
          returned_blocks_,
          around};
}

/// The iteration made ready, run to its end.
template <class C>
void BasicEngine<C>::run(const Surroundings& around) {
  const Seconds start = now();
  const View view = view_at(start);
  const Iteration iteration = iteration_in(view, around);
  const Seconds planning = launched_.planning;
  TransferState before_run;
  if constexpr (Observers::replays) before_run = transfer_state_;
  if constexpr (plans_async) decide_async(iteration);
  const IterationCost cost = backend_.template run<transfer_type>(iteration, transfer_state_);
  if constexpr (watches_time) learn(iteration, cost, launched_.repeated);

  if constexpr (!Observers::none) {
    IterationRecord record;
    record.step = step_;
    record.start = start - planning;
    record.duration = cost.duration + planning;
    record.stall = cost.stall;
    record.planning = planning;
    record.batch = decision_.claims;
    record.rows = rows_;
    if constexpr (real_time && Observers::replays) // whatever moved, not what the plan alone streams
      for (std::size_t slot = stream_slots_.size(); slot < rows_.size(); ++slot)
        stream_slots_.push_back(Slot{static_cast<std::uint32_t>(slot)});
    record.stream_slots = stream_slots_;
    record.decodes = work_.decodes;
    record.tokens = work_.tokens();
    record.running = static_cast<std::int64_t>(running_.size());
    record.waiting = waiting_;
    record.preempted = static_cast<std::int64_t>(preempted_.size());
    record.device_used = ledger_.device().used();
    record.device_capacity = ledger_.device().capacity();
    record.in_flight = LayerBlocks{static_cast<std::int64_t>(std::max(0.0, launched_.room))};
    record.host_used = ledger_.host().used();
    record.to_device = moved_to_device_;
    record.to_host = moved_to_host_;
    const WeightStream& weights = launched_.weights;
    record.weights = Bytes{static_cast<std::int64_t>((weights.blocks * weights.layers.count() + returned_blocks_) *
                                                     static_cast<double>(config_.geometry.layer_block_bytes.count()))};
    record.repeated = launched_.repeated;
    record.plan = &plan_;
    observe([&](const auto& observer, auto& state) {
      observer.iterated(state, record, [&](auto&& sink) {
        if constexpr (Observers::replays) {
          TransferState again = before_run;
          backend_.template replay<transfer_type>(iteration, again, sink);
        }
      });
    });
  }

  ++step_;
  if constexpr (ends_requests) take_outcomes();
  bool accounted = false;
  if constexpr (may_be_quiet) {
    accounted = quiet_;
    if (quiet_) account_decodes(now());
  }
  if (!accounted) account(now());
  if constexpr (lookahead_type::ahead && !plans_async) decide_ahead(start, cost.duration);
  end_finished(now());
}

/// Who ended before its length ran out has been given it; who failed is refused with the reason, and gets no token of
/// this iteration.
template <class C>
void BasicEngine<C>::take_outcomes() {
  if constexpr (ends_requests)
    for (const RequestOutcome& outcome : backend_.outcomes()) {
      RequestRow& who = row(outcome.slot);
      if (!outcome.failed) {
        who.spec.output = who.generated + Tokens{1}; // this iteration's is its last
        continue;
      }
      std::erase_if(decision_.claims, [&outcome](const Claim& claim) { return claim.slot == outcome.slot; });
      refuse(outcome.slot, outcome.reason);
      if (!streams_.empty()) forget_prefetches();
    }
}

/// Copies full blocks to the host as far as the way out has time during this iteration and the host has room: whose
/// request has run the longest first. `out_blocks` and `in_blocks` are what it moves anyway. Layer blocks.
template <class C>
LayerBlocks BasicEngine<C>::copy_ahead(const View& view, double out_blocks, double in_blocks) {
  LayerBlocks copied{0};
  if constexpr (copies_ahead) {
    const auto& predictor = config_.cost.predictor(cost_state_);
    const int layers = config_.geometry.layers;
    const BlockLink link = block_link(predictor.link(), config_.geometry);
    const double step_s = compute_time(predictor, work_, layers).count();
    const double possible = link.each_way() ? step_s * link.out_blocks_per_s * (1 - link.mix_loss) - out_blocks
                                            : step_s * link.blocks_per_s - out_blocks - in_blocks;
    const LayerBlocks idle{static_cast<std::int64_t>(std::max(0.0, possible))};
    LayerBlocks left = std::min(config_.retention.copy_ahead(view, idle), ledger_.host().free());
    const Tokens block_tokens = config_.limits.block_tokens;
    for (auto at = running_.begin(); at != running_.end() && left.count() > 0; ++at) {
      RequestRow& who = row(*at);
      if (who.resident_layers == 0) continue;
      const std::int64_t each = layout_type::room(TokenBlocks{1}, who.resident_layers, layers).count();
      const std::int64_t clean = who.holding.copied_blocks(who.blocks, block_tokens).count();
      const std::int64_t more = std::min(who.computed.count() / block_tokens.count() - clean, left.count() / each);
      if (more <= 0) continue;
      const Holding from = who.holding;
      who.holding.copied = Tokens{(clean + more) * block_tokens.count()};
      const Footprint before = footprint_of(from, who.blocks);
      const Footprint after = footprint_of(who.holding, who.blocks);
      ledger_.replace(before, after);
      left -= after.host - before.host;
      copied += movement(from, who.holding, who.blocks, block_tokens, layers).to_host;
    }
    moved_to_host_ += copied;
  }
  return copied;
}

/// What was predicted against what was measured, for those who learn from it. A repeated iteration was not predicted.
template <class C>
void BasicEngine<C>::learn(const Iteration& iteration, const IterationCost& cost, bool repeated) {
  const auto& predictor = config_.cost.predictor(cost_state_);
  const IterationCost predicted = evaluate<transfer_type>(iteration, predictor, compute_, predicted_state_);
  if (!repeated) config_.replan.observe(replan_state_, predicted.duration, cost.duration);
  config_.cost.observe(cost_state_, Observation{iteration.work, config_.geometry.layers, !repeated,
                                                cost.duration - cost.stall, Bytes{0}, 0, Seconds{0}});
  predicted_state_ = transfer_state_; // the next prediction starts from what is known of the link
}

/// Every claim's tokens now have KV; whoever has nothing pending has one token more.
template <class C>
void BasicEngine<C>::account(Seconds now) {
  const auto sink = delivery_sink();
  for (const Claim& claim : decision_.claims) {
    if (claim.tokens.count() == 0) continue;
    RequestRow& who = row(claim.slot);
    who.computed += claim.tokens;
    if constexpr (finds) finder_.seal(claim.slot, who.computed, config_.limits.block_tokens);
    if (who.pending().count() > 0) continue;
    who.generated += Tokens{1};
    who.last_token = now;
    config_.delivery.generated(who, now, sink);
    if (who.generated >= who.spec.output) finished_rows_.push_back(claim.slot);
  }
}

template <class C>
void BasicEngine<C>::end_finished(Seconds now) {
  if (finished_rows_.empty()) return;
  quiet_ = false;
  const auto sink = delivery_sink();
  for (const Slot slot : finished_rows_) {
    RequestRow& who = row(slot);
    config_.delivery.finish(who, now, sink);
    observe([&](const auto& observer, auto& state) { observer.ended(state, who, now); });
    running_.erase(std::find(running_.begin(), running_.end(), slot));
    if constexpr (lookahead_type::ahead)
      std::erase_if(pending_.claims, [slot](const Claim& c) { return c.slot == slot; });
    if constexpr (lookahead_type::ahead) std::erase(pending_.leaving, slot);
    if constexpr (lookahead_type::ahead) std::erase(pending_.victims, slot);
    release(slot);
    ++finished_;
  }
  last_finish_step_ = step_;
  finished_rows_.clear();
  if (!streams_.empty()) forget_prefetches();
}

/// The next iteration is decided while this one runs: from its predicted end, without the arrivals that come meanwhile
/// (the caller submits them afterwards) and without knowing who ends with it (they are still in the lists).
template <class C>
void BasicEngine<C>::decide_ahead(Seconds start, Seconds predicted) {
  decide(start + predicted, pending_);
  pending_.ready = start + pending_.planning;
  pending_.planning = Seconds{0};
}

/// Deposits drain while their requests run, wait for their turn, or are preempted: up to date before anybody plans by
/// them.
template <class C>
void BasicEngine<C>::advance_deliveries(Seconds now) {
  const auto sink = delivery_sink();
  for (const Slot slot : running_) config_.delivery.advance(row(slot), now, sink);
  for (const Slot slot : preempted_) config_.delivery.advance(row(slot), now, sink);
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Commit: a decision becomes fact. The only writer of phases, holdings, the ledger and the plan in force.
#pragma once

#include "sluice/engine/engine.hpp"

#include <algorithm>
#include <cmath>

namespace sluice {

/// Order matters: what the claims need is known before anybody is preempted; who leaves frees memory before anybody
/// takes it; what preempted requests keep is given up only for what is then still missing; and the ledger is asked
/// before a block is counted, so that it never exceeds its capacity.
template <class C>
void BasicEngine<C>::commit(Decision& decision) {
  leaving_ = arriving_ = moved_to_device_ = moved_to_host_ = LayerBlocks{0};
  urgent_blocks_ = first_blocks_ = written_blocks_ = 0;
  const bool fetched = !streams_.empty();
  const bool came_back = returned_blocks_ > 0;
  returned_blocks_ = 0;
  const WeightsPlan weights = plan_.weights;
  streams_.clear();
  stream_slots_.clear();
  rebuilds_.clear();
  plan_changed_ = decision.new_plan;

  LayerBlocks taken_back{0}; // by weights that return: only once everybody has moved out
  if (decision.new_plan) {
    const LayerBlocks lent = capacity_with(next_plan_.weights) - kv_capacity_;
    if (lent.count() > 0) ledger_.resize_device(ledger_.device().capacity() + lent);
    if (lent.count() < 0) taken_back = -lent;
    kv_capacity_ += lent;
    if constexpr (offers_weights) {
      borrowed_in_force_ = borrowed_;
      own_level_ = next_plan_.weights.streamed.empty() ? 0 : next_plan_.weights.level - lent_layers_;
    }
    std::swap(plan_, next_plan_);
    ++plan_serial_;
    config_.replan.planned(replan_state_);
    for (const RequestPlan& planned : plan_.requests) row(planned.slot).plan_serial = plan_serial_;
  }

  // What the claims need. Of the host's memory it is theirs before anybody is preempted there: they were placed by it.
  Footprint before, after;
  const auto sum_up = [&] {
    before = after = {};
    for (std::size_t i = 0; i < decision.claims.size(); ++i) {
      const Claim& claim = decision.claims[i];
      const RequestRow& who = row(claim.slot);
      const TokenBlocks blocks = who.blocks_after(claim.tokens, config_.limits.block_tokens);
      if (!decision.new_plan && who.phase == Phase::running) {
        if (blocks == who.blocks) continue;
        const Footprint growth = footprint_of(who.holding, blocks) - footprint_of(who.holding, who.blocks);
        after = after + growth;
        continue;
      }
      before = before + footprint_of(who.holding, who.blocks);
      const Holding target = decision.new_plan ? target_of(i, claim) : holding_in_force(who);
      after = after + footprint_of(with_copies(who, target), blocks);
    }
  };
  sum_up();
  host_reserved_ = std::max(LayerBlocks{0}, after.host - before.host); // what they give back is free only then

  for (const Slot slot : decision.leaving) preempt(slot);
  for (const Slot slot : decision.victims) {
    if (relief_type::parting == Parting::refuse)
      refuse(slot, "no plan fits it beside those that already run");
    else if (row(slot).phase == Phase::running)
      preempt(slot);
  }
  if (decision.empties_preempted)
    for (const Slot slot : preempted_)
      if (std::none_of(decision.claims.begin(), decision.claims.end(),
                       [slot](const Claim& c) { return c.slot == slot; }))
        drop(row(slot));
  for (const Slot slot : decision.unplaceable) refuse(slot, "it cannot be placed even alone");

  if constexpr (finds) // before anybody takes a free block, which might be one of those found
    for (const Claim& claim : decision.claims)
      if (row(claim.slot).phase != Phase::running)
        finder_.attach(claim.slot, row(claim.slot), config_.limits.block_tokens);

  // What is then missing on the device, preempted requests give up.
  const LayerBlocks needed = after.device - before.device + decision.in_flight + taken_back;
  if (needed > ledger_.device().free()) reclaim(needed - ledger_.device().free(), decision);
  if constexpr (copies_ahead)
    for (;;) { // copies given up, here or while others were preempted, may be those of the claims
      sum_up();
      const LayerBlocks missing = after.host - before.host - ledger_.host().free();
      const LayerBlocks used = ledger_.host().used();
      give_up_copies(missing);
      if (missing <= LayerBlocks{0} || ledger_.host().used() == used) break;
    }

  if (decision.new_plan) {
    // Those that give first: the sum fits, the order in between might not.
    ledger_.replace(before, after);
    for (std::size_t i = 0; i < decision.claims.size(); ++i) {
      move_claim(decision.claims[i], target_of(i, decision.claims[i]));
      if constexpr (Observers::replays && !real_time) stream_slots_.resize(streams_.size(), decision.claims[i].slot);
    }
    if (taken_back.count() > 0) ledger_.resize_device(ledger_.device().capacity() - taken_back);
  } else {
    ledger_.replace(before, after);
    for (const Claim& claim : decision.claims) {
      RequestRow& who = row(claim.slot);
      if (who.phase == Phase::running && who.holding.all_resident()) {
        grow(who, claim.tokens);
        if constexpr (finds) finder_.extend(claim.slot, who.computed + claim.tokens, config_.limits.block_tokens);
        continue;
      }
      move_claim(claim, holding_in_force(who));
      if constexpr (Observers::replays && !real_time) stream_slots_.resize(streams_.size(), claim.slot);
    }
  }
  if constexpr (offers_weights)
    if (!decision.claims.empty()) {
      return_weights(weights, plan_.weights, most_lent_layers_ - lent_in_force_);
      lent_in_force_ = most_lent_layers_ = lent_layers_;
    }
  const bool other_batch = plan_changed_ || !decision.victims.empty() || !decision.leaving.empty();
  if (came_back || (other_batch && (fetched || !streams_.empty() || !(weights == plan_.weights)))) forget_prefetches();
}

/// Weights that were streamed until now and stay from now on come over the link once more, each layer before it
/// computes. Nothing goes the other way: the host has all of them.
///
/// So do those whose memory others have had since the last iteration, `overwritten` layers beside those that `before`
/// does without. Which those are was for this engine to say: as far as they go, those that it streams from now on, and
/// of the others as many as are missing, evenly spaced.
template <class C>
void BasicEngine<C>::return_weights(const WeightsPlan& before, const WeightsPlan& after, int overwritten) {
  const auto fetch = [this](LayerSet layers, double share) {
    if (layers.empty() || share <= 0) return;
    const WeightStream whole = config_.geometry.stream_of({.streamed = layers, .share = share});
    streams_.push_back({layers, whole.blocks});
    const double blocks = whole.blocks * layers.count();
    returned_blocks_ += blocks;
    arriving_ += LayerBlocks{static_cast<std::int64_t>(std::ceil(blocks))}; // into memory that is theirs again
  };
  fetch(before.streamed - after.streamed, before.share);
  fetch(before.streamed & after.streamed, before.share - after.share);
  int missing = overwritten - (after.streamed - before.streamed).count();
  if (missing <= 0) return;
  const LayerSet resident = LayerSet::all(config_.geometry.layers) - (before.streamed | after.streamed);
  missing = std::min(missing, resident.count());
  LayerSet chosen;
  int place = 0;
  resident.for_each([&](int layer) { // the i-th of them, where i * missing / count passes a whole number
    if ((place + 1) * missing / resident.count() > place * missing / resident.count()) chosen.insert(layer);
    ++place;
  });
  fetch(chosen, 1);
}

/// The holding that the plan just adopted gives to the claim at position `i`.
template <class C>
Holding BasicEngine<C>::target_of(std::size_t i, const Claim& claim) const {
  if (i < plan_.requests.size() && plan_.requests[i].slot == claim.slot) return plan_.requests[i].holding;
  for (const RequestPlan& planned : plan_.requests)
    if (planned.slot == claim.slot) return planned.holding;
  return plan_.unseen;
}

/// What arrived early was for another batch or another plan (streamed weights alone are for any). What a plan still has
/// to move, it still has to.
template <class C>
void BasicEngine<C>::forget_prefetches() {
  const double background = transfer_state_.background_blocks;
  transfer_state_.clear();
  transfer_state_.background_blocks = background;
}

template <class C>
void BasicEngine<C>::grow(RequestRow& who, Tokens tokens) {
  const TokenBlocks blocks = who.blocks_after(tokens, config_.limits.block_tokens);
  who.slack += Tokens{(blocks - who.blocks).count() * config_.limits.block_tokens.count()} - tokens;
  who.blocks = blocks;
}

/// One claim goes to its place: what is on the host and needed now is fetched, layer by layer or all at once; what the
/// plan wants on the host and is not there is evicted; the request joins if it did not run.
template <class C>
void BasicEngine<C>::move_claim(const Claim& claim, const Holding& target) {
  RequestRow& who = row(claim.slot);
  const bool returns = who.phase == Phase::preempted;
  const Holding from = who.holding;
  const TokenBlocks held = who.blocks; // before this iteration's tokens
  const Tokens block_tokens = config_.limits.block_tokens;
  const HiddenSize hidden = config_.geometry.hidden_size();
  if (who.phase != Phase::running) join(claim.slot);
  grow(who, claim.tokens);
  if constexpr (finds) finder_.extend(claim.slot, who.computed + claim.tokens, config_.limits.block_tokens);
  who.holding = with_copies(who, target);
  who.resident_layers = config_.geometry.layers - target.away().count();
  if (held.count() == 0) {
    // Nothing computed yet: nothing to move. What the prompt computes for offloaded layers is written out as it goes.
    const std::int64_t head = target.head_blocks(who.blocks, block_tokens).count();
    const LayerBlocks written = LayerBlocks{head * target.host.count()} + hidden.room(head * target.hidden.count());
    written_blocks_ += static_cast<double>(written.count());
    moved_to_host_ += written;
    return;
  }
  const Movement delta = movement(from, who.holding, held, block_tokens, config_.geometry.layers, hidden);
  arriving_ += delta.to_device;
  leaving_ += delta.to_host;
  moved_to_host_ += delta.to_host;
  const TokenBlocks grown = target.head_blocks(who.blocks, block_tokens) - target.head_blocks(held, block_tokens);
  const LayerBlocks fresh =
      LayerBlocks{grown.count() * target.host.count()} + hidden.room(grown.count() * target.hidden.count());
  moved_to_host_ += fresh;
  // One token a step is nothing, unless all goes back.
  if (claim.tokens.count() > 1 || target.written_back) written_blocks_ += static_cast<double>(fresh.count());
  // Who sits this iteration out rebuilds nothing for itself, but what the plan wants kept it has to make.
  if (claim.tokens.count() > 0 || !(from == target)) rebuild(from, target, held);
  if (claim.tokens.count() == 0 || from.host.empty()) {
    urgent_blocks_ += claim.tokens.count() == 0 ? static_cast<double>(delta.to_device.count()) : 0.0;
    moved_to_device_ += delta.to_device;
    return;
  }
  LayerSet just_in_time = from.host;
  if (returns && !retention_type::returns_layerwise) {
    // The whole of it comes before the first layer starts.
    urgent_blocks_ += static_cast<double>(delta.to_device.count());
    first_blocks_ += static_cast<double>(delta.to_device.count());
    moved_to_device_ += delta.to_device;
    just_in_time = from.host & target.host;
  }
  if (just_in_time.empty()) return;
  const TokenBlocks streamed = from.head_blocks(held, block_tokens);
  moved_to_device_ += LayerBlocks{streamed.count() * just_in_time.count()};
  const LayerSet back = target.written_back ? just_in_time & target.host : LayerSet{};
  moved_to_host_ += LayerBlocks{streamed.count() * back.count()};
  streams_.push_back({just_in_time, static_cast<double>(streamed.count()), back});
}

/// Whatever K and V are nowhere, or were until now, this iteration makes: those that stay so for itself, those that the
/// plan wants kept for good. Where both the layers and the share of the tokens change, the larger of each is reckoned.
template <class C>
void BasicEngine<C>::rebuild(const Holding& from, const Holding& target, TokenBlocks held) {
  const Tokens block_tokens = config_.limits.block_tokens;
  RebuiltWork work;
  std::int64_t most = 0;
  for (const Holding* holding : {&from, &target}) {
    const std::int64_t head = holding->head_blocks(held, block_tokens).count();
    if (holding->nowhere.empty() || head == 0) continue;
    most = std::max(most, head);
    work.layers = work.layers | holding->nowhere;
    work.hidden = work.hidden | holding->hidden;
  }
  if (most == 0) return;
  work.tokens = Tokens{most * block_tokens.count()};
  rebuilds_.push_back(work);
  if (work.hidden.empty()) return;
  const auto fetched = static_cast<double>(most);
  stream_head({all_tokens, {}, work.layers, work.hidden}, fetched, config_.geometry.hidden_size());
  const LayerBlocks states = config_.geometry.hidden_size().room(most * work.hidden.count());
  moved_to_device_ += states;
  // Where K and V are to stay, the states stand until then.
  arriving_ += std::min(states, LayerBlocks{most * (from.hidden - target.away()).count()});
}

template <class C>
void BasicEngine<C>::join(Slot slot) {
  RequestRow& who = row(slot);
  if (who.phase == Phase::waiting) {
    config_.admission.leave(admission_state_, slot, who);
    --waiting_;
  } else {
    preempted_.erase(std::find(preempted_.begin(), preempted_.end(), slot));
    observe([&](const auto& observer, auto& state) { observer.resumed(state, who, now()); });
  }
  who.phase = Phase::running;
  who.running_since = now();
  running_.push_back(slot);
}

template <class C>
void BasicEngine<C>::preempt(Slot slot) {
  RequestRow& who = row(slot);
  running_.erase(std::find(running_.begin(), running_.end(), slot));
  who.phase = Phase::preempted;
  who.preempted_since = now();
  who.preempted_at_step = step_;
  ++who.times_preempted;
  const View view = view_at(now());
  Kept kept = who.computed.count() == 0 ? Kept::nothing : config_.retention.on_preempt(view, who);
  // Layers held nowhere would have lost their newer tokens too: there is nothing whole to move.
  const bool moves = kept == Kept::host || kept == Kept::hidden;
  if (moves && !who.holding.nowhere.empty()) kept = Kept::nothing;
  if (moves && kept != Kept::nothing) {
    const Footprint before = footprint_of(who.holding, who.blocks);
    Holding moved = who.holding;
    moved.head = all_tokens;
    moved.host = LayerSet::all(config_.geometry.layers);
    moved.copied = Tokens{0};
    if constexpr (KeepsHidden<retention_type, Predictor>) {
      if (kept == Kept::hidden) {
        moved.nowhere = moved.hidden = config_.retention.hidden_layers(view, who, config_.cost.predictor(cost_state_));
        moved.host = moved.host - moved.hidden;
      }
    } else {
      SLUICE_ASSERT(kept != Kept::hidden, "who keeps hidden states says of which layers: hidden_layers");
    }
    const Footprint after = footprint_of(moved, who.blocks);
    give_up_copies(after.host - before.host - (ledger_.host().free() - host_reserved_));
    if (after.host - before.host > ledger_.host().free() - host_reserved_) {
      kept = Kept::nothing;
    } else {
      ledger_.replace(before, after);
      const LayerBlocks evicted = movement(who.holding, moved, who.blocks, config_.limits.block_tokens,
                                           config_.geometry.layers, config_.geometry.hidden_size())
                                      .to_host;
      leaving_ += evicted;
      moved_to_host_ += evicted;
      who.holding = moved;
      who.resident_layers = 0;
    }
  }
  if (kept == Kept::nothing) drop(who);
  const auto place = std::lower_bound(preempted_.begin(), preempted_.end(), who.id,
                                      [this](Slot other, RequestId id) { return row(other).id < id; });
  preempted_.insert(place, slot);
  observe([&](const auto& observer, auto& state) { observer.preempted(state, who, kept, now()); });
}

/// Its KV is gone, from both memories: everything is computed again.
template <class C>
void BasicEngine<C>::drop(RequestRow& who) {
  ledger_.replace(footprint_of(who.holding, who.blocks), {});
  if constexpr (finds) {
    finder_.release(static_cast<Slot>(&who - rows_.data()));
    ledger_.resize_device(ledger_.device().used() + across_layers(finder_.free(), config_.geometry.layers));
  }
  who.computed = who.slack = Tokens{0};
  who.blocks = TokenBlocks{0};
  who.holding = Holding{};
  who.resident_layers = config_.geometry.layers;
}

/// Preempted requests give up at least `needed` blocks of what they keep on the device: the youngest first, layer by
/// layer from the last. What finds no room on the host is dropped, the whole request with it.
template <class C>
void BasicEngine<C>::reclaim(LayerBlocks needed, const Decision& decision) {
  const View view = view_at(now());
  for (auto at = preempted_.rbegin(); at != preempted_.rend() && needed.count() > 0; ++at) {
    if (std::any_of(decision.claims.begin(), decision.claims.end(), [at](const Claim& c) { return c.slot == *at; }))
      continue; // it comes back in this very decision
    RequestRow& who = row(*at);
    const LayerSet every = LayerSet::all(config_.geometry.layers);
    while (needed.count() > 0 && who.blocks.count() > 0) {
      const Footprint before = footprint_of(who.holding, who.blocks);
      if (before.device.count() == 0) break;
      Holding less = who.holding;
      less.head = all_tokens;
      const int last = (every - who.holding.away()).highest(); // none: of a head that was all away, the tail goes
      if (layout_type::layerwise && last >= 0)
        less.host.insert(last);
      else
        less.host = every;
      const Footprint after = footprint_of(less, who.blocks);
      const bool fits = after.host - before.host <= ledger_.host().free() - host_reserved_;
      if (config_.retention.on_reclaim(view, who) == Kept::nothing || !who.holding.nowhere.empty() || !fits) {
        drop(who);
        needed -= before.device;
        continue;
      }
      ledger_.replace(before, after);
      const LayerBlocks evicted =
          movement(who.holding, less, who.blocks, config_.limits.block_tokens, config_.geometry.layers).to_host;
      leaving_ += evicted;
      moved_to_host_ += evicted;
      who.holding = less;
      who.resident_layers = config_.geometry.layers - less.away().count();
      needed -= before.device - after.device;
    }
  }
}

/// `target` as `who` comes to it: what the host has of the layers that are resident there stays, as a clean copy.
template <class C>
Holding BasicEngine<C>::with_copies(const RequestRow& who, Holding target) const {
  if constexpr (copies_ahead) {
    const Tokens block_tokens = config_.limits.block_tokens;
    TokenBlocks copied{who.computed.count() / block_tokens.count()}; // the full ones
    (LayerSet::all(config_.geometry.layers) - target.away()).for_each([&](int layer) {
      copied = std::min(copied, who.holding.on_host(layer, who.blocks, block_tokens));
    });
    target.copied =
        target.away().count() < config_.geometry.layers ? Tokens{copied.count() * block_tokens.count()} : Tokens{0};
  }
  return target;
}

/// At least `needed` blocks of the host's memory, if there are as many copies in it: the newest request's go first, and
/// of a request the newest.
template <class C>
void BasicEngine<C>::give_up_copies(LayerBlocks needed) {
  if constexpr (copies_ahead) {
    const std::int64_t block_tokens = config_.limits.block_tokens.count();
    for (const auto& list : {std::span<const Slot>(preempted_), std::span<const Slot>(running_)})
      for (auto at = list.rbegin(); at != list.rend() && needed.count() > 0; ++at) {
        RequestRow& who = row(*at);
        if (who.holding.copied.count() == 0) continue;
        const Footprint before = footprint_of(who.holding, who.blocks);
        const std::int64_t each =
            layout_type::room(TokenBlocks{1}, who.resident_layers, config_.geometry.layers).count();
        const std::int64_t fewer = (needed.count() + each - 1) / each;
        who.holding.copied = Tokens{std::max<std::int64_t>(0, who.holding.copied.count() - fewer * block_tokens)};
        const Footprint after = footprint_of(who.holding, who.blocks);
        ledger_.replace(before, after);
        needed -= before.host - after.host;
      }
  }
}

template <class C>
void BasicEngine<C>::refuse(Slot slot, std::string_view reason) {
  RequestRow& who = row(slot);
  if (who.phase == Phase::waiting) {
    config_.admission.leave(admission_state_, slot, who);
    --waiting_;
  } else {
    auto& list = who.phase == Phase::running ? running_ : preempted_;
    list.erase(std::find(list.begin(), list.end(), slot));
  }
  observe([&](const auto& observer, auto& state) { observer.refused(state, who.id, who.spec, now(), reason); });
  release(slot);
}

/// The row's memory and its slot are free again.
template <class C>
void BasicEngine<C>::release(Slot slot) {
  RequestRow& who = row(slot);
  drop(who);
  who.phase = Phase::ended;
  free_slots_.push_back(slot);
  --alive_;
}

} // namespace sluice

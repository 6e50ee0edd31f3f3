// SPDX-License-Identifier: Apache-2.0
// Requests come, grow and go: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/engine/core/commit_steps.hpp"
#include "sluice/engine/core/writers.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {

SLUICE_INLINE void grow(Core& core, Slot slot, Tokens tokens) {
  RequestRow& request = core.row(slot);
  const Tokens block_tokens = core.limits.block_tokens;
  const TokenBlocks blocks = request.blocks_after(tokens, block_tokens);
  request.slack += Tokens{(blocks - request.blocks).count() * block_tokens.count()} - tokens;
  request.blocks = blocks;
  if (core.policies->is.finds_released)
    core.prefix.extend(slot, request.computed + request.awaited() + tokens, block_tokens);
}

SLUICE_INLINE std::uint64_t user_of(const RequestRow& request) {
  const std::uint64_t session = request.spec.session;
  return session > 0 ? session : (std::uint64_t{1} << 32) + index(request.id);
}

SLUICE_INLINE void part(Core& core, Slot slot, Tokens kept, Seconds now, const PolicyCalls& policies) {
  RequestRow& request = core.row(slot);
  const Tokens block = core.limits.block_tokens;
  if (policies.table.on_end != nullptr)
    kept = std::min(kept, policies.table.on_end(policies.policies, core.view(now), request));
  if (kept >= request.computed) return;
  const auto first = std::max(core.prefix.first_own(slot, user_of(request), request.computed, block),
                              static_cast<std::size_t>(blocks_for(std::max(kept, Tokens{0}), block).count()));
  const TokenBlocks blocks{std::min(static_cast<std::int64_t>(first), request.blocks.count())};
  const Footprint before = core.footprint(request);
  core.prefix.release_first(slot, first);
  request.blocks = blocks;
  request.slack = Tokens{0};
  core.ledger.replace(before, core.footprint(request));
  core.ledger.resize_device(core.ledger.device().used() + core.prefix.free(core.geometry.layers));
}

SLUICE_INLINE void join(Core& core, Slot slot, const PolicyCalls& policies, Seconds now) {
  RequestRow& request = core.row(slot);
  const bool first = request.phase == Phase::waiting && request.times_preempted == 0;
  if (first && core.policies->is.parts_with && core.prefix.named())
    core.prefix.use(slot, user_of(request), request.spec.prompt, core.limits.block_tokens);
  if (request.phase == Phase::waiting) {
    policies.table.left_queue(policies.policies, slot, request);
    --core.requests.waiting;
    if (first) {
      request.found = std::max(Tokens{0}, request.found_on_device() + request.loading - request.arrived);
      request.loaded = request.loading;
      request.fetched = std::min(request.fetched, static_cast<std::int32_t>(request.loading.count()));
    }
  } else {
    std::erase(core.requests.preempted, slot);
    policies.table.tell(policies.policies, events::Resumed{request, now});
  }
  request.phase = Phase::running;
  request.running_since = now;
  core.requests.running.push_back(slot);
  if (first && policies.table.tiers != nullptr) policies.table.tiers->started(core, slot, now, policies);
}

/// A request that does not run loads its first `tokens` tokens when it joins.
SLUICE_INLINE void load_on_joining(RequestRow& request, Tokens tokens) {
  request.computed = request.loading = tokens;
  request.slack = -tokens; // they take room like new ones
}

/// Removes a request that does not end by itself from the queue or from its list.
SLUICE_INLINE void leave_list(Core& core, Slot slot, const PolicyCalls& policies) {
  const RequestRow& request = core.row(slot);
  if (request.phase == Phase::waiting) {
    policies.table.left_queue(policies.policies, slot, request);
    --core.requests.waiting;
  } else {
    std::erase(request.phase == Phase::running ? core.requests.running : core.requests.preempted, slot);
  }
}

SLUICE_INLINE bool may_pin(const Core& core, const RequestRow& request) {
  if (!core.policies->is.finds_released || core.policies->caching == nullptr) return false;
  return request.spec.session != 0 ||
         (core.policies->caching->uses_hints.ttl && request.spec.whole(not_a_policy).hints.ttl.count() > 0);
}

SLUICE_INLINE void end_on_device(Core& core, Slot slot, Tokens kept, Seconds pinned, Seconds now,
                                 const PolicyCalls& policies) {
  RequestRow& request = core.row(slot);
  const bool pins = pinned.count() > 0;
  // A pin holds no more than is kept. Without one, Retention alone says what the device parts with.
  if (policies.table.on_end != nullptr || (pins && kept < request.computed))
    part(core, slot, pins ? kept : request.computed, now, policies);
  if (!pins) return;
  core.prefix.pin(slot, {{}, core.footprint(request).device, request.spec.session, now + pinned});
  request.blocks = TokenBlocks{0};
  request.slack = Tokens{0};
}

SLUICE_INLINE void unpin_session(Core& core, std::uint32_t session) {
  for (std::size_t i = core.prefix.pins().size(); i-- > 0;)
    if (core.prefix.pins()[i].session == session) core.ledger.replace({core.prefix.unpin(i), LayerBlocks{0}}, {});
}

SLUICE_INLINE void unpin(Core& core, std::size_t pin) {
  core.carry_over.more_may_join();
  core.ledger.replace({core.prefix.unpin(pin), LayerBlocks{0}}, {});
  core.ledger.resize_device(core.ledger.device().used() + core.prefix.free(core.geometry.layers));
}

/// The session's next request may come.
SLUICE_INLINE void answer(Core& core, const RequestRow& request, Seconds now) {
  if (core.requests.keeps_answers && request.spec.session != 0)
    core.requests.answers.push_back({request.spec.session, now});
}

/// Frees the row's memory and its slot.
SLUICE_INLINE void release(Core& core, Slot slot) {
  RequestRow& request = core.row(slot);
  if (core.policies->tiers != nullptr) core.policies->tiers->left(core, slot);
  drop(core, request);
  request.phase = Phase::ended;
  core.requests.free_slots.push_back(slot);
  --core.requests.alive;
}

/// What a request finds on the device, and behind that on a real backend's host, if it has not started yet: Caching
/// says how much of that it loads, and without a policy it loads all.
SLUICE_INLINE bool choose_load(Core& core, Slot slot, const View& view, const PolicyCalls& policies) {
  RequestRow& request = core.row(slot);
  const bool released = core.policies->is.finds_released;
  if (released && request.times_lost > 0 && request.lost_at == request.generated.count()) {
    const bool found = request.computed.count() > 0; // and may lose it again: it computes everything
    request.computed = request.slack = request.loading = Tokens{0};
    return found;
  }
  if (request.on_host.count() == 0 || request.phase != Phase::waiting || request.times_preempted > 0)
    return released && core.prefix.look_up(slot, request, core.limits.block_tokens);
  const auto found = [](const RequestRow& row) { return std::array{row.computed, row.loading, row.slack}; };
  const std::array before = found(request);
  load_on_joining(request, Tokens{0}); // the same question each time, whatever was answered before
  if (released) (void)core.prefix.look_up(slot, request, core.limits.block_tokens);
  if (const Tokens below = request.on_host - request.computed; below.count() > 0) {
    const FoundPrefix prefix{.device = request.computed, .below = below};
    const Reuse reuse =
        core.policies->caching == nullptr ? Reuse{.tokens = below} : load_of(core, request, prefix, view, policies);
    request.loading = reuse.tokens;
    request.load_mode = reuse.mode;
    request.computed += request.loading;
    request.slack -= request.loading; // they take room like new ones
  }
  return found(request) != before;
}

/// Of a request of an engine without tiers.
SLUICE_INLINE void ended_on_machine(Core& core, Slot slot, Seconds now, const PolicyCalls& policies) {
  RequestRow& request = core.row(slot);
  if (!may_pin(core, request)) return end_on_device(core, slot, request.computed, Seconds{0}, now, policies);
  request.phase = Phase::ended;
  const CachingTable& caching = *policies.table.caching;
  const Worth worth = caching.worth(policies.policies, core.view(now), request);
  const bool parts = caching.uses_hints.keep || caching.uses_hints.release;
  end_on_device(core, slot, parts ? std::min(request.computed, worth.kept) : request.computed, worth.pinned, now,
                policies);
}

} // namespace detail

SLUICE_INLINE Reuse load_of(const Core& core, const RequestRow& request, FoundPrefix found, const View& view,
                            const PolicyCalls& policies) {
  found.only_layerwise = true;
  Reuse reuse = policies.table.caching->reuse(policies.policies, view, request, found);
  const auto in_blocks = [block = core.limits.block_tokens.count()](Tokens wanted, Tokens most) {
    return Tokens{std::clamp(wanted, Tokens{0}, most).count() / block * block};
  };
  reuse.tokens = in_blocks(reuse.tokens, found.below);
  reuse.fetched = in_blocks(reuse.fetched, found.lower);
  return reuse;
}

SLUICE_INLINE RequestId new_request_id(Core& core) { return RequestId{core.requests.next_id++}; }

SLUICE_INLINE Slot enter_request(Core& core, RequestId id, const RequestSpec& spec,
                                 std::span<const BlockKey> prompt_keys, Tokens on_host) {
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
  request.hides_length = !core.policies->is.foresees;
  request.resident_layers = core.geometry.layers;
  request.on_host = on_host;
  detail::load_on_joining(request, on_host); // until Caching is asked, so that Admission sees what is likely left
  if (core.policies->is.finds_released || core.policies->tiers != nullptr) core.prefix.enter(slot, id, prompt_keys);
  if (core.policies->is.parts_with && !core.prefix.named()) // a backend knows the tokens only after this
    core.prefix.use(slot, detail::user_of(request), spec.prompt, core.limits.block_tokens);
  core.lending.prompt_tokens += static_cast<double>(spec.prompt.count());
  ++core.lending.accepted;
  ++requests.waiting;
  ++requests.alive;
  core.carry_over.request_entered();
  return slot;
}

SLUICE_INLINE void arrive_with_kv(Core& core, Slot slot, Tokens arrived) {
  const Tokens block = core.limits.block_tokens;
  if (core.policies->tiers != nullptr) arrived = Tokens{arrived / block * block.count()}; // tiers have whole blocks
  if (core.policies->is.finds_released || core.policies->tiers != nullptr) core.prefix.arrive(slot, arrived);
  RequestRow& request = core.row(slot);
  request.computed = request.arrived = arrived;
  request.slack = -arrived; // they take room like new ones
}

SLUICE_INLINE void refuse_request(Core& core, const Refusal& refusal, const PolicyCalls& policies, Seconds now) {
  const RequestRow& request = core.row(refusal.slot);
  detail::leave_list(core, refusal.slot, policies);
  policies.table.tell(policies.policies, events::Refused{request.id, request.spec.whole(not_a_policy), now, refusal.why,
                                                         !refusal.impossible});
  detail::answer(core, request, now);
  detail::release(core, refusal.slot);
}

SLUICE_INLINE void fail_request(Core& core, Slot slot, std::string_view why, const Draft& draft,
                                const PolicyCalls& policies, Seconds now) {
  refuse_request(core, {slot, why, true}, policies, now);
  core.carry_over.request_left(draft.fetches);
}

SLUICE_INLINE bool lose_kv(Core& core, Slot slot, bool alone, const Draft& draft, const PolicyCalls& policies,
                           Seconds now) {
  constexpr int most = 100, each_alone = 34;
  RequestRow& request = core.row(slot);
  const auto at = static_cast<std::int32_t>(request.generated.count());
  const int lost = (request.lost_at == at ? request.times_lost : 0) + (alone ? each_alone : 1);
  if (lost >= most) return false;
  request.lost_at = at;
  request.times_lost = static_cast<std::int16_t>(lost);
  const bool ran = request.phase == Phase::running;
  if (ran) detail::stop_running(core, slot, now);
  detail::drop(core, request);
  if (ran) { // a preempted request that kept its states on the device is not preempted again
    detail::list_preempted(core, slot);
    policies.table.tell(policies.policies, events::Preempted{request, Kept::nothing, now});
  }
  core.carry_over.request_left(draft.fetches);
  return true;
}

SLUICE_INLINE void cancel_request(Core& core, Slot slot, const Draft& draft, const PolicyCalls& policies) {
  // Memory is free that was not before: a request that Relief holds back until another ends may return.
  if (core.row(slot).phase != Phase::waiting) core.last_finish_step = core.step;
  detail::leave_list(core, slot, policies);
  detail::release(core, slot);
  core.carry_over.request_left(draft.fetches);
}

SLUICE_INLINE void end_request(Core& core, Slot slot, const Draft& draft, Seconds now, const PolicyCalls& policies) {
  detail::answer(core, core.row(slot), now);
  std::erase(core.requests.running, slot);
  core.lengths.learn(core.row(slot).generated);
  if (policies.table.is.parts_with)
    core.prefix.use(slot, detail::user_of(core.row(slot)), core.row(slot).computed, core.limits.block_tokens);
  if (policies.table.tiers != nullptr)
    policies.table.tiers->ended(core, slot, now, policies);
  else
    detail::ended_on_machine(core, slot, now, policies);
  detail::release(core, slot);
  if (policies.table.is.parts_with)
    core.prefix.forget_users([&core](BlockKey key) {
      return core.prefix.finds(key) ||
             (core.policies->tiers != nullptr && core.tiers.calls().holds(*core.tiers, {&key, 1}));
    });
  ++core.finished;
  core.last_finish_step = core.step;
  core.carry_over.request_left(draft.fetches);
}

SLUICE_INLINE void take_answers(Core& core, std::vector<Answered>& answers) {
  answers.clear();
  core.requests.keeps_answers = true;
  std::swap(answers, core.requests.answers);
}

SLUICE_INLINE bool grow_steadily(Core& core, std::span<const Claim> claims, std::int64_t opening, Moves& moves) {
  LayerBlocks states{0}; // hidden states that are written out
  if (opening > 0) {
    Footprint growth{core.layout.room(TokenBlocks{opening}), LayerBlocks{0}};
    if (!core.geometry.alike()) {
      growth.device = LayerBlocks{0};
      for (const Claim& claim : claims)
        if (const RequestRow& request = core.row(claim.slot); request.slack.count() == 0)
          growth.device += core.room_of(request.blocks + TokenBlocks{1}) - core.room_of(request.blocks);
    }
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
  moves.nothing(); // the step before may have swapped a request in
  moves.to_host = states;
  return true;
}

SLUICE_INLINE void give_up_pin(Core& core) {
  const auto& pins = core.prefix.pins();
  const auto first =
      std::min_element(pins.begin(), pins.end(), [](const auto& a, const auto& b) { return a.until < b.until; });
  detail::unpin(core, static_cast<std::size_t>(first - pins.begin()));
}

SLUICE_INLINE void unpin_expired(Core& core, Seconds now) {
  for (std::size_t i = core.prefix.pins().size(); i-- > 0;)
    if (core.prefix.pins()[i].until <= now) detail::unpin(core, i);
}

SLUICE_INLINE void end_load(Core& core, Slot slot) {
  RequestRow& request = core.row(slot);
  request.waits = false;
  if (core.policies->is.finds_released) core.prefix.seal(slot, request.computed, core.limits.block_tokens);
}

SLUICE_INLINE void name_blocks(Core& core, const BlockNames& names) {
  const CachingTable* const caching = core.policies->caching;
  core.prefix.name_by(names, caching != nullptr && caching->writes == Writes::evicted);
}

SLUICE_INLINE void tell_taken(Core& core) { core.prefix.forget_taken(); }

SLUICE_INLINE void let_return(Core& core, Slot slot, bool may_return) { core.row(slot).may_return = may_return; }

SLUICE_INLINE void take_load(Core& core, Slot slot, const RequestRow& decided) {
  RequestRow& request = core.row(slot);
  if (decided.on_host.count() > 0 && request.phase == Phase::waiting && request.times_preempted == 0)
    request.computed = decided.computed, request.loading = decided.loading, request.slack = decided.slack,
    request.load_mode = decided.load_mode;
}

namespace detail {
/// Looks up one request. Returns whether what it finds has changed.
SLUICE_INLINE bool find_prefix(Core& core, Slot slot, const View& view, const PolicyCalls& policies) {
  if (core.policies->tiers != nullptr) return core.policies->tiers->look_up(core, slot, view, policies);
  return choose_load(core, slot, view, policies);
}
} // namespace detail

SLUICE_INLINE bool find_prefixes(Core& core, std::span<const Slot> asked, const View& view,
                                 const PolicyCalls& policies) {
  bool changed = false;
  for (const Slot slot : asked) changed = detail::find_prefix(core, slot, view, policies) || changed;
  return changed;
}

} // namespace sluice

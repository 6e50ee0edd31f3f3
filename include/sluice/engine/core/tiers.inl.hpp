// SPDX-License-Identifier: Apache-2.0
// Tiers: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/engine/core/commit_steps.hpp"
#include "sluice/engine/core/prepared.hpp"
#include "sluice/engine/core/tiers.hpp"
#include "sluice/engine/core/writers.hpp"
#include "sluice/policy/transfer/estimate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace sluice {

SLUICE_INLINE void Tiers::expect(const Expectation& of, std::span<const BlockKey> keys) {
  if (of.session == 0) return;
  came(of.session);
  Seconds reads{0};
  for (std::size_t i = 1; i < levels_.size(); ++i)
    reads = std::max(reads, levels_[i].facts.latency +
                                block_ * static_cast<std::int64_t>(keys.size()) / levels_[i].facts.read_rate);
  if (store().replacement() == Replacement::least_worth) levels_.requests->want(by(of.session), keys, of.worth);
  levels_[0].store.weigh(keys, [&](std::size_t i) { return wanted(keys[i]); });
  put_expected({of, {keys.begin(), keys.end()}, of.now + std::max(Seconds{0}, of.returns - reads)});
}

SLUICE_INLINE void Tiers::bring_expected(Seconds now) {
  while (!expected_.empty() && expected_.front().due <= now) {
    Expected one = std::move(expected_.front());
    expected_.erase(expected_.begin());
    const std::span<const BlockKey> keys(one.keys);
    const auto worth_of = [&](std::size_t block) { return wanted(keys[block]); };
    if (one.brought) {
      (void)levels_.requests->forget(by(one.of.session));
      levels_[0].store.weigh(keys, worth_of);
      continue;
    }
    const Found found = find(keys);
    levels_[0].store.touch(keys.first(found.first), worth_of);
    if (found.lower > 0)
      fetch({one.of.slot, nobody, false}, keys.first(found.first + found.lower), found.first, one.of.worth, one.due);
    one.brought = true;
    one.due = one.of.now + 2 * one.of.returns;
    put_expected(std::move(one));
  }
}

namespace detail {

[[gnu::cold]] SLUICE_INLINE Status check_tiers(const Tier& first, std::span<const Tier> lower, Writes writes,
                                               Feed feed) {
  for (std::size_t i = 0; i <= lower.size(); ++i) {
    const Tier& tier = i == 0 ? first : lower[i - 1];
    Error bad{ErrorCode::bad_input, "engine configuration", "tier " + std::to_string(i + 1), {}};
    if (tier.capacity.count() < 0) {
      bad.what += " has a negative capacity";
      bad.expected = "at least 0 blocks";
    } else if (!(tier.read_rate.count() > 0) || !(tier.write_rate.count() > 0) || !(tier.latency.count() >= 0)) {
      bad.what += " has a rate that moves nothing, or a negative latency";
      bad.expected = "positive rates, and a latency of at least 0 s";
    } else if (tier.replacement == Replacement::least_worth &&
               (i == 0 ? writes == Writes::evicted : feed == Feed::evicted)) {
      // A block is evicted without its request: neither its worth nor the block before it is known.
      bad.what += " gets evicted blocks, and evicts by worth, which evicted blocks do not have";
      bad.expected = "another Replacement";
    } else {
      continue;
    }
    return bad;
  }
  return {};
}

/// A request that waits for a tier's blocks is asked again.
SLUICE_INLINE void wake(Core& core, const Tiers::Waiter& waiter, const Tiers::Brought& brought) {
  RequestRow& request = core.row(waiter.slot);
  if (request.id != waiter.id || request.phase == Phase::ended || request.phase == Phase::running) return;
  const Tokens block = core.limits.block_tokens;
  if (request.times_preempted == 0) { // counted like `found`, until it first joins
    const std::span<const BlockKey> keys = core.prefix.keys_within(waiter.slot, request.context() - Tokens{1}, block);
    request.fetched += static_cast<std::int32_t>(static_cast<std::int64_t>(brought.of(keys)) * block.count());
  }
  if (!waiter.waits) return;
  request.waits = false;
  core.carry_over.more_may_join();
  if (!brought.all) request.has_fetched = true; // it has had no patience for another request's fetch, either
}

/// What the request has computed, others can find on the device from now on, if it keeps blocks.
SLUICE_INLINE void seal(Core& core, Slot slot) {
  if (core.policies->is.finds_released) core.prefix.seal(slot, core.row(slot).computed, core.limits.block_tokens);
}

/// The first tier has what live requests leave of the host's memory when they have taken `more` blocks.
SLUICE_INLINE void give_way(Core& core, LayerBlocks more, Seconds now) {
  if (!core.shares_host()) return;
  const Account& host = core.ledger.host();
  SLUICE_ASSERT(host.used() + across_layers(TokenBlocks{static_cast<std::int64_t>(core.tiers->store().size())},
                                            core.geometry.layers) <=
                    host.capacity(),
                "prefixes and live requests share the host's memory");
  core.tiers->limit(std::max<std::int64_t>(0, (host.free() - more).count()) / core.geometry.layers, now);
}

/// If a request that computes beside its load has computed all before the loaded blocks, and these have arrived, it
/// goes on behind them.
SLUICE_INLINE void meet(Core& core, Slot slot) {
  RequestRow& request = core.row(slot);
  if (request.meets == 0 || request.waits || request.computed < Tokens{request.meets}) return;
  request.computed += std::exchange(request.loading, Tokens{0});
  request.meets = 0;
  seal(core, slot);
}

SLUICE_INLINE void entered(Core& core, Slot slot, Seconds now, const PolicyCalls& policies) {
  const CachingTable& caching = *policies.table.caching;
  if (!caching.looks_ahead) return;
  Tiers& tiers = *core.tiers;
  const RequestRow& request = core.row(slot);
  const Tokens block = core.limits.block_tokens;
  const std::span<const BlockKey> keys = core.prefix.keys_within(slot, request.context() - Tokens{1}, block);
  const double worth = caching.worth(policies.policies, core.view(now), request).score;
  tiers.want(slot, keys, worth);
  std::size_t first = 0;
  while (first < keys.size() && core.prefix.finds(keys[first])) ++first;
  const Tiers::Found found = tiers.find(keys.subspan(first));
  first += found.first;
  const std::size_t end = first + found.lower;
  const Tiers::Waiter ahead{slot, request.id, false};
  for (std::size_t covered = first; first < end; first = covered) { // others' fetches bring the beginning
    covered = tiers.join_fetch(keys, first, ahead);
    if (covered == first) break;
  }
  if (first < end) tiers.fetch(ahead, keys.first(end), first, 0, now);
}

SLUICE_INLINE void explain(Core& core, Slot slot, const PolicyCalls& policies) {
  Tiers& tiers = *core.tiers;
  if (!tiers.explains()) return;
  const RequestRow& request = core.row(slot);
  const Tokens block = core.limits.block_tokens;
  // As in `find_below`. What it loads lies between two parts that it computes.
  const std::span<const BlockKey> keys = core.prefix.keys_within(slot, request.spec.prompt - Tokens{1}, block);
  const auto blocks = [&](Tokens tokens) { return static_cast<std::size_t>(tokens.count() / block.count()); };
  const std::size_t found = blocks(request.found_on_device());
  const std::size_t loaded = request.meets > 0 ? blocks(Tokens{request.meets}) : found;
  const std::size_t behind = loaded + blocks(request.loading);
  const auto on_device = [&](BlockKey key) { return core.prefix.finds(key); };
  MissCauses causes;
  tiers.explain(keys, found, loaded, request.has_fetched, on_device, causes);
  tiers.explain(keys, behind, keys.size(), request.has_fetched, on_device, causes);
  tiers.computes(core.prefix.keys_within(slot, request.spec.prompt, block));
  if (causes.all().count() == 0) return;
  const auto in_tokens = [&](Tokens& counted) { counted = Tokens{counted.count() * block.count()}; };
  in_tokens(causes.unwritten);
  in_tokens(causes.evicted);
  in_tokens(causes.late);
  in_tokens(causes.cut);
  policies.table.tell(policies.policies, events::Missed{request, causes});
}

SLUICE_INLINE void started(Core& core, Slot slot, Seconds now, const PolicyCalls& policies) {
  const CachingTable& caching = *policies.table.caching;
  const RequestRow& request = core.row(slot);
  core.tiers->came(request.spec.session);
  if (caching.looks_ahead)
    core.tiers->join(slot, core.prefix.keys_within(slot, request.context() - Tokens{1}, core.limits.block_tokens),
                     caching.worth(policies.policies, core.view(now), request).score);
  explain(core, slot, policies);
}

/// The last `missing` of the blocks that a request was to load are lost: it computes their tokens.
SLUICE_INLINE void lose(Core& core, RequestRow& request, std::size_t missing, const PolicyCalls& policies) {
  const Tokens lost{static_cast<std::int64_t>(missing) * core.limits.block_tokens.count()};
  (request.meets > 0 ? request.loading : request.computed) -= lost;
  request.slack += lost;
  if (request.times_preempted > 0) return;
  request.found -= lost;
  request.loaded -= lost;
  if (core.tiers->explains() && missing > 0)
    policies.table.tell(policies.policies, events::Missed{request, {.evicted = lost}});
}

/// Blocks of loads that have ended are on the device, where others find them; the rest of what a tier's channel has
/// brought by `now` is in its tier.
SLUICE_INLINE void arrive(Core& core, Seconds now, const PolicyCalls& policies) {
  Tiers& tiers = *core.tiers;
  const auto awake = [&core](const Tiers::Waiter& waiter, const Tiers::Brought& brought) {
    wake(core, waiter, brought);
  };
  for (Tiers::Loaded loaded; tiers.take_loaded(now, loaded, awake);) {
    RequestRow& request = core.row(loaded.by.slot);
    if (request.id != loaded.by.id || request.phase != Phase::running || !request.waits) continue; // it has left
    request.waits = false;
    lose(core, request, loaded.missing, policies);
    if (request.meets > 0)
      meet(core, loaded.by.slot);
    else
      seal(core, loaded.by.slot);
  }
  tiers.arrive_by(now, awake);
}

/// One tier, and it has no room: what is written to it would only take the link's time.
SLUICE_INLINE bool keeps_nothing(const Tiers& tiers) { return tiers.count() == 1 && tiers.store().capacity() == 0; }

/// The tier is offered what Caching says of the request's KV that it has not been offered yet.
SLUICE_INLINE void offer(Core& core, Slot slot, const View& view, const PolicyCalls& policies) {
  const CachingTable& caching = *policies.table.caching;
  const RequestRow& request = core.row(slot);
  Tokens wanted = std::min(caching.write(policies.policies, view, request), request.computed);
  if (request.phase == Phase::ended && core.policies->is.parts_with)
    wanted = std::min(wanted, caching.worth(policies.policies, view, request).kept);
  std::size_t& offered = core.prefix.offered(slot);
  const std::span<const BlockKey> keys = core.prefix.keys_within(slot, wanted, core.limits.block_tokens);
  if (keys.size() <= offered || keeps_nothing(*core.tiers)) return;
  core.tiers->write(keys, offered, caching.worth(policies.policies, view, request).score, view.now,
                    request.resident_layers);
  offered = keys.size();
}

SLUICE_INLINE void ended(Core& core, Slot slot, Seconds now, const PolicyCalls& policies) {
  RequestRow& request = core.row(slot);
  request.phase = Phase::ended;
  if (policies.table.caching->writes != Writes::evicted) offer(core, slot, core.view(now), policies);
  const HintSet uses = policies.table.caching->uses_hints;
  const bool pins = may_pin(core, request);
  if (!pins && !uses.any()) return end_on_device(core, slot, request.computed, Seconds{0}, now, policies);
  const Worth worth = policies.table.caching->worth(policies.policies, core.view(now), request);
  const Tokens block = core.limits.block_tokens;
  const Tokens kept = uses.keep || uses.release ? std::min(request.computed, worth.kept) : request.computed;
  if (uses.prefetch && worth.returns.count() > 0)
    core.tiers->expect({request.spec.session, slot, worth.score, now, worth.returns},
                       core.prefix.keys_within(slot, kept, block));
  if (kept < request.computed) {
    const std::span<const BlockKey> keys = core.prefix.keys_within(slot, request.computed, block);
    const auto first = static_cast<std::size_t>(blocks_for(std::max(kept, Tokens{0}), block).count());
    core.tiers->discard(keys.subspan(std::min(
        keys.size(), std::max(first, core.prefix.first_own(slot, user_of(request), request.computed, block)))));
  }
  end_on_device(core, slot, kept, pins ? worth.pinned : Seconds{0}, now, policies);
}

/// A request leaves, whether it has ended or not.
SLUICE_INLINE void left(Core& core, Slot slot) {
  Tiers& tiers = *core.tiers;
  tiers.leave(slot);
  const RequestRow& request = core.row(slot);
  if (!tiers.explains() || (request.phase == Phase::waiting && request.times_preempted == 0)) return; // never `started`
  const Tokens block = core.limits.block_tokens;
  const auto blocks = [block](Tokens tokens) { return static_cast<std::size_t>(tokens.count() / block.count()); };
  const std::span<const BlockKey> keys =
      core.prefix.keys_within(slot, std::max(request.computed, request.spec.prompt), block);
  tiers.computed(keys, blocks(request.computed), blocks(request.spec.prompt));
}

SLUICE_INLINE bool find_below(Core& core, Slot slot, const View& view, const PolicyCalls& policies) {
  RequestRow& request = core.row(slot);
  if (request.waits || request.blocks.count() > 0) return false; // a paused request has its KV
  Tiers& tiers = *core.tiers;
  const Tokens block_tokens = core.limits.block_tokens;
  const RequestRow before = request;
  request.loading = Tokens{0};
  request.meets = 0;
  (void)core.prefix.look_up(slot, request, block_tokens);
  // The last token is always computed, because its output is needed.
  const std::span<const BlockKey> keys = core.prefix.keys_within(slot, request.context() - Tokens{1}, block_tokens);
  const auto on_device = static_cast<std::size_t>(request.computed.count() / block_tokens.count());
  const Tiers::Found found = tiers.find(keys.subspan(on_device));
  const auto tokens_of = [&](std::size_t blocks) {
    return Tokens{static_cast<std::int64_t>(blocks) * block_tokens.count()};
  };
  if (found.first + found.lower > 0) {
    FoundPrefix prefix{request.computed, tokens_of(found.first), tokens_of(found.lower)};
    const std::size_t lower = on_device + found.first;
    if (found.first > 0) prefix.below_time = tiers.read_time(found.first, view.now);
    if (found.lower > 0) prefix.lower_time = tiers.fetch_time(keys.first(lower + found.lower), lower, view.now);
    const Reuse reuse = policies.table.caching->reuse(policies.policies, view, request, prefix);
    const auto blocks_of = [&](Tokens wanted, Tokens most) {
      return static_cast<std::size_t>(std::clamp(wanted, Tokens{0}, most).count() / block_tokens.count());
    };
    const std::size_t fetched = request.has_fetched ? 0 : blocks_of(reuse.fetched, prefix.lower);
    const bool beside = reuse.mode == LoadMode::beside;
    const std::size_t skipped = beside ? blocks_of(reuse.skipped, prefix.below) : 0;
    const std::size_t loaded = blocks_of(reuse.tokens, prefix.below - tokens_of(skipped));
    // Another request's load helps only if its blocks can be found on the device then.
    const bool shares_loads = core.policies->is.finds_released;
    if (fetched > 0) {
      const std::size_t first = on_device + found.first;
      const Tiers::Waiter self{slot, request.id, true, view.now + reuse.patience};
      request.waits = true;
      // What others' fetches and loads do not bring is fetched when they are over.
      if (tiers.join_fetch(keys, first, self) == first && !(shares_loads && tiers.join_load(keys[first], self))) {
        request.has_fetched = true;
        // The worth of a request that waits is known if the policy looks ahead, and only as long as it waits.
        const double worth = policies.table.caching->looks_ahead
                                 ? 0
                                 : policies.table.caching->worth(policies.policies, view, request).score;
        tiers.fetch(self, keys.first(first + fetched), first, worth, view.now);
      }
    } else if (loaded > 0 && shares_loads && tiers.join_load(keys[on_device + skipped], {slot, request.id})) {
      request.waits = true;
    } else {
      request.loading = tokens_of(loaded);
      request.load_mode = beside && skipped == 0 ? LoadMode::ahead : reuse.mode;
      if (skipped > 0 && loaded > 0)
        request.meets = static_cast<std::int32_t>((request.computed + tokens_of(skipped)).count());
      else
        request.computed += request.loading;
      request.slack -= request.loading; // its blocks take room like new ones
    }
  }
  return before.computed != request.computed || before.slack != request.slack || before.loading != request.loading ||
         before.load_mode != request.load_mode || before.meets != request.meets || request.waits;
}

SLUICE_INLINE void use(Core& core, Slot slot, Seconds now) {
  const RequestRow& request = core.row(slot);
  core.tiers->touch(core.prefix.keys_within(slot, request.computed + request.awaited(), core.limits.block_tokens), now);
}

SLUICE_INLINE TokenBlocks load(Core& core, Slot slot, Moves& moves, Seconds now, const PolicyCalls& policies) {
  RequestRow& request = core.row(slot);
  if (!core.shares_host()) use(core, slot, now);
  const std::span<const BlockKey> keys = core.prefix.loaded_keys(slot, request, core.limits.block_tokens);
  if (request.load_mode == LoadMode::ahead || request.load_mode == LoadMode::beside) {
    const TokenBlocks blocks{static_cast<std::int64_t>(keys.size())};
    core.tiers->load({slot, request.id}, keys, now, request.resident_layers);
    core.tiers->loaded_idle += across_layers(blocks, request.resident_layers); // the host has the other layers
    request.waits = true;
    if (request.load_mode == LoadMode::ahead) request.loading = Tokens{0};
    return blocks;
  }
  const std::size_t held = core.tiers->store().find(keys); // others may have taken their room in this commit
  SLUICE_ASSERT(held == keys.size() || core.shares_host(), "the host's memory is the tier's alone");
  if (held < keys.size()) lose(core, request, keys.size() - held, policies);
  request.loading = Tokens{0};
  const TokenBlocks blocks{static_cast<std::int64_t>(held)};
  if (held == 0) return blocks;
  moves.arriving += across_layers(blocks, request.resident_layers);
  const LayerBlocks all = across_layers(blocks, core.geometry.layers);
  moves.to_device += all;
  moves.from_tier += all;
  const double of_each_layer = core.tiers->load_within(blocks.count(), now, core.geometry.layers);
  if (request.load_mode == LoadMode::layerwise) {
    moves.streams.push_back({LayerSet::all(core.geometry.layers), of_each_layer, {}});
  } else {
    moves.urgent_blocks += of_each_layer * core.geometry.layers;
    moves.first_blocks += of_each_layer * core.geometry.layers;
  }
  return blocks;
}

SLUICE_INLINE void abandon(Core& core, Slot slot) {
  core.tiers->abandon(slot);
  core.row(slot).waits = false;
}

} // namespace detail

SLUICE_INLINE void offer_to_tiers(Core& core, std::span<const Claim> claims, Seconds now, const PolicyCalls& policies) {
  const CachingTable& caching = *policies.table.caching;
  detail::give_way(core, LayerBlocks{0}, now);
  if (caching.writes == Writes::evicted) {
    for (const Claim& claim : claims) detail::meet(core, claim.slot);
    return;
  }
  const View view = core.view(now);
  for (const Claim& claim : claims) {
    detail::meet(core, claim.slot);
    if (!core.row(claim.slot).waits) detail::offer(core, claim.slot, view, policies);
  }
}

SLUICE_INLINE double pass_idle_time(Core& core, Seconds now, double background_blocks, const PolicyCalls& policies) {
  Tiers& tiers = *core.tiers;
  detail::give_way(core, LayerBlocks{0}, now);
  const Seconds since = tiers.run_until();
  double idle_s = (now - since).count();
  const BlockLink link = block_link(policies.table.link(policies.policies), core.geometry);
  const double rate = link.blocks_per_s;
  // On one lane the loads, for which requests wait, go first.
  if (!link.each_way() && idle_s > 0) idle_s -= std::min(idle_s, tiers.loading() / rate);
  tiers.pass_idle(rate, now);
  if (idle_s > 0) {
    const double possible = idle_s * (link.each_way() ? link.out_blocks_per_s : link.blocks_per_s);
    const LayerBlocks more{tiers.launch()};
    tiers.moved_idle += more;
    const double wanted = background_blocks + static_cast<double>(more.count());
    background_blocks = std::max(0.0, wanted - possible);
    // They have crossed at the beginning of that time.
    const Seconds crossed = now - Seconds{idle_s * std::clamp(1 - wanted / possible, 0.0, 1.0)};
    tiers.crossed(std::min(tiers.on_link(), background_blocks), crossed);
  }
  detail::arrive(core, now, policies);
  unpin_expired(core, now);
  return background_blocks;
}

SLUICE_INLINE void launch_writes(Core& core, Moves& moves, Prepared& prepared, Seconds now) {
  Tiers& tiers = *core.tiers;
  const CachingTable& caching = *core.policies->caching;
  const bool back = caching.writes == Writes::evicted;
  const LayerBlocks blocks{!back ? tiers.launch()
                           : detail::keeps_nothing(tiers)
                               ? 0
                               : tiers.write_back(core.prefix.overwritten(), now) * core.geometry.layers};
  if (back) core.prefix.forget_overwritten();
  moves.to_tier = blocks + std::exchange(tiers.moved_idle, LayerBlocks{0});
  moves.to_host += moves.to_tier;
  const LayerBlocks loaded = std::exchange(tiers.loaded_idle, LayerBlocks{0});
  moves.from_tier += loaded;
  moves.to_device += loaded;
  if (caching.writes == Writes::behind)
    prepared.background += static_cast<double>(blocks.count());
  else
    moves.written_blocks += static_cast<double>(blocks.count());
}

SLUICE_INLINE void pass_iteration(Core& core, Seconds duration, Seconds now, const Moves& moves,
                                  const Prepared& prepared, double background_blocks, const PolicyCalls& policies) {
  Tiers& tiers = *core.tiers;
  detail::give_way(core, LayerBlocks{0}, now);
  if (tiers.loading() > 0) {
    // Loads for which requests wait have what the iteration leaves of the lane to the device.
    const BlockLink link = block_link(policies.table.link(policies.policies), core.geometry);
    double in = moves.urgent_blocks + prepared.weights.blocks * prepared.weights.layers.count();
    for (const LayerStream& stream : moves.streams) in += stream.blocks * stream.layers.count();
    const double out = moves.written_blocks + prepared.urgent_out + prepared.background - background_blocks;
    double idle_s = duration.count() - in / link.blocks_per_s;
    idle_s -= link.each_way() ? link.mix_loss * std::min(duration.count(), out / link.out_blocks_per_s)
                              : out / link.blocks_per_s;
    tiers.pass(std::max(0.0, idle_s) * link.blocks_per_s, now);
  } else {
    tiers.pass(0, now);
  }
  tiers.crossed(std::min(tiers.on_link(), background_blocks), now);
  detail::arrive(core, now, policies);
}

SLUICE_INLINE void share_tiers(Core& core, const Tiers& of, std::uint64_t engine) {
  core.tiers->share(of, engine);
  core.prefix.tell_apart(engine);
}

SLUICE_INLINE Seconds next_load(const Core& core) { return core.tiers->next_end(); }

SLUICE_INLINE const TierCalls tier_calls{
    .check = &detail::check_tiers,
    .make = [](const TierList& tiers, Bytes token_block, Feed feed) { return new Tiers(tiers, token_block, feed); },
    .copy = [](const Tiers& tiers) { return new Tiers(tiers); },
    .destroy = [](Tiers* tiers) { delete tiers; },
    .look_up = &detail::find_below,
    .entered = &detail::entered,
    .started = &detail::started,
    .use = &detail::use,
    .load = &detail::load,
    .abandon = &detail::abandon,
    .ended = &detail::ended,
    .left = &detail::left,
    .give_way = &detail::give_way,
    .holds = [](const Tiers& tiers, std::span<const BlockKey> keys) { return tiers.store().find(keys) == keys.size(); },
    .find =
        [](const Tiers& tiers, std::span<const BlockKey> keys) {
          const Tiers::Found found = tiers.find(keys);
          return found.first + found.lower;
        },
    .on_link = [](const Tiers& tiers) { return tiers.on_link(); }};

} // namespace sluice

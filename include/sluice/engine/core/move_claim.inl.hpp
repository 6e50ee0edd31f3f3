// SPDX-License-Identifier: Apache-2.0
// move_claim: moves one scheduled request to its place, and counts what that transfers and rebuilds.
#pragma once

#include "sluice/engine/core/commit_steps.hpp"
#include "sluice/engine/core/writers.hpp"

#include <algorithm>

namespace sluice::detail {

/// The iteration rebuilds all K and V that are nowhere, or were until now: only for itself if they stay nowhere, for
/// good if the plan wants them kept. If both the layers and the share of the tokens change, the larger of each counts.
SLUICE_INLINE void rebuild(const Core& core, const Holding& from, const Holding& target, TokenBlocks held,
                           Moves& moves) {
  const Tokens block_tokens = core.limits.block_tokens;
  RebuiltWork work;
  LayerSet fetched; // layers whose hidden states are on the host
  std::int64_t most = 0;
  for (const Holding* holding : {&from, &target}) {
    const std::int64_t head = holding->head_blocks(held, block_tokens).count();
    if (holding->nowhere.empty() || head == 0) continue;
    most = std::max(most, head);
    work.layers = work.layers | holding->nowhere;
    work.hidden = work.hidden | holding->hidden;
    fetched = fetched | holding->hidden_on_host();
    work.states_on_device = work.states_on_device || holding->states_on_device;
  }
  if (most == 0) return;
  work.tokens = Tokens{most * block_tokens.count()};
  moves.rebuilds.push_back(work);
  if (fetched.empty()) return;
  const HiddenSize hidden = core.geometry.hidden_size();
  Moves::stream(moves.streams, {all_tokens, {}, work.layers, fetched}, static_cast<double>(most), hidden);
  const LayerBlocks states = hidden.room(most * fetched.count());
  moves.to_device += states;
  // If K and V are to stay, their hidden states take the room until then.
  moves.arriving += std::min(states, LayerBlocks{most * (from.hidden_on_host() - target.away()).count()});
}

/// KV that the backend's host tier has crosses the link as Caching says: layer by layer, before the first layer, or while
/// the request waits. What the plan wants on the host stays there.
SLUICE_INLINE void load_from_host(const Core& core, RequestRow& request, Moves& moves) {
  const std::int64_t blocks = request.loading.count() / core.limits.block_tokens.count();
  const LayerBlocks all{blocks * core.geometry.layers};
  moves.arriving += LayerBlocks{blocks * request.resident_layers};
  moves.to_device += all;
  if (request.load_mode == LoadMode::layerwise)
    moves.streams.push_back({LayerSet::all(core.geometry.layers), static_cast<double>(blocks), {}});
  else
    moves.urgent_blocks += static_cast<double>(all.count());
  if (request.load_mode == LoadMode::whole) moves.first_blocks += static_cast<double>(all.count());
  request.waits = request.load_mode == LoadMode::ahead;
  request.loading = Tokens{0};
}

/// All of it must arrive before the first layer starts.
[[gnu::noinline]] SLUICE_INLINE void arrive_first(LayerBlocks blocks, Moves& moves) {
  moves.urgent_blocks += static_cast<double>(blocks.count());
  moves.first_blocks += static_cast<double>(blocks.count());
  moves.to_device += blocks;
}

SLUICE_INLINE void move_claim(Core& core, const Claim& claim, const Holding& target, const LayerSet& saved,
                              const PolicyCalls& policies, Seconds now, CommitState& state) {
  Moves& moves = state.moves;
  RequestRow& request = core.row(claim.slot);
  if (request.phase == Phase::running && request.holding.all_resident() && target.all_resident() && saved.empty() &&
      !policies.table.is.copies_ahead) { // the request's KV stays in place, and nothing is written
    grow(core, claim.slot, claim.tokens);
    request.holding = target;
    return;
  }
  const bool returns = request.phase == Phase::preempted;
  const Holding from = request.holding;
  const TokenBlocks held = request.blocks; // before this iteration's tokens
  const Tokens block_tokens = core.limits.block_tokens;
  const HiddenSize hidden = core.geometry.hidden_size();
  if (request.phase != Phase::running) join(core, claim.slot, policies, now);
  grow(core, claim.slot, claim.tokens);
  request.holding = state.keeps_copies ? with_copies(core, request, target) : target;
  request.holding.saved = saved - target.away();
  request.resident_layers = core.geometry.layers - target.away().count();
  const int with_states = request.holding.saved.count();
  if (held.count() == 0) {
    // Nothing is computed yet, so nothing moves. The prompt's KV of offloaded layers is written out as it is computed,
    // and so are saved hidden states.
    const std::int64_t head = target.head_blocks(request.blocks, block_tokens).count();
    TokenBlocks loaded{request.loading.count() / block_tokens.count()}; // the host has them already
    if (loaded.count() > 0 && core.policies->tiers != nullptr)
      loaded = core.policies->tiers->load(core, claim.slot, moves, now, policies);
    else if (loaded.count() > 0)
      load_from_host(core, request, moves);
    const LayerBlocks written =
        core.geometry.moved(TokenBlocks{std::max<std::int64_t>(0, head - loaded.count())}) * target.host.count() +
        hidden.room(target.state_blocks(request.blocks, block_tokens).count() * target.hidden_on_host().count() +
                    request.blocks.count() * with_states);
    moves.written_blocks += static_cast<double>(written.count());
    moves.to_host += written;
    return;
  }
  const Movement delta =
      movement(from, request.holding, held, block_tokens, core.geometry.layers, hidden, core.geometry.kv());
  moves.arriving += delta.to_device;
  moves.to_host += delta.to_host;
  moves.leaving += delta.to_host;
  // KV that the host attends must have crossed: blocks that move now, or that left when the request was preempted.
  if (target.attended_on_host) moves.due += returns ? LayerBlocks{held.count() * core.geometry.layers} : delta.to_host;
  const TokenBlocks grown = target.head_blocks(request.blocks, block_tokens) - target.head_blocks(held, block_tokens);
  const TokenBlocks states =
      target.state_blocks(request.blocks, block_tokens) - target.state_blocks(held, block_tokens);
  const LayerBlocks fresh =
      core.geometry.moved(grown) * target.host.count() +
      hidden.room(states.count() * target.hidden_on_host().count() + (request.blocks - held).count() * with_states);
  moves.to_host += fresh;
  // One token's KV or states per step are too little to count, unless the whole layer goes back.
  if (claim.tokens.count() > 1 || target.written_back) moves.written_blocks += static_cast<double>(fresh.count());
  // A request that waits for this iteration rebuilds nothing for itself, but does rebuild what the plan wants kept.
  if (claim.tokens.count() > 0 || !(from == request.holding)) rebuild(core, from, target, held, moves);
  if (claim.tokens.count() == 0 || from.host.empty() || target.attended_on_host) {
    moves.urgent_blocks += claim.tokens.count() == 0 ? static_cast<double>(delta.to_device.count()) : 0.0;
    moves.to_device += delta.to_device;
    return;
  }
  LayerSet just_in_time = from.host;
  if ((returns || from.attended_on_host) && !policies.table.is.returns_layerwise) {
    arrive_first(delta.to_device, moves);
    just_in_time = from.host & target.host;
  } else if (returns && !core.geometry.alike()) { // windows and states come whole
    just_in_time = from.host & core.geometry.movable();
    arrive_first(core.geometry.kv_of(held, from.host - just_in_time), moves);
  }
  if (just_in_time.empty()) return;
  const LayerBlocks streamed = core.geometry.moved(from.head_blocks(held, block_tokens)); // of each layer
  moves.to_device += streamed * just_in_time.count();
  const LayerSet back = target.written_back ? just_in_time & target.host : LayerSet{};
  moves.to_host += streamed * back.count();
  moves.streams.push_back({just_in_time, static_cast<double>(streamed.count()), back});
}

} // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
// The tier below the device: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/engine/core/commit_steps.hpp"
#include "sluice/engine/core/prepared.hpp"
#include "sluice/engine/core/writers.hpp"
#include "sluice/policy/transfer/block_link.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace sluice {

SLUICE_INLINE bool detail::find_below(Core& core, Slot slot, const View& view, const PolicyCalls& policies) {
  RequestRow& request = core.row(slot);
  const Tokens block_tokens = core.limits.block_tokens;
  const RequestRow before = request;
  request.loading = Tokens{0};
  (void)core.prefix.look_up(slot, request, block_tokens);
  // The last token is always computed, because its output is needed.
  const std::span<const BlockKey> keys = core.prefix.keys_within(slot, request.context() - Tokens{1}, block_tokens);
  const auto on_device = static_cast<std::size_t>(request.computed.count() / block_tokens.count());
  if (const std::size_t below = core.tier.find(keys.subspan(on_device)); below > 0) {
    const FoundPrefix found{request.computed, Tokens{static_cast<std::int64_t>(below) * block_tokens.count()}};
    const Reuse reuse = policies.table.reuse(policies.policies, view, request, found);
    const std::int64_t wanted = std::clamp(reuse.tokens, Tokens{0}, found.below).count();
    request.loading = Tokens{wanted / block_tokens.count() * block_tokens.count()};
    request.loads_layerwise = reuse.layerwise;
    request.computed += request.loading;
    request.slack -= request.loading; // its blocks take room like new ones
  }
  return before.computed != request.computed || before.slack != request.slack || before.loading != request.loading ||
         before.loads_layerwise != request.loads_layerwise;
}

SLUICE_INLINE void detail::load(Core& core, Slot slot, Moves& moves) {
  RequestRow& request = core.row(slot);
  const Tokens block_tokens = core.limits.block_tokens;
  const TokenBlocks blocks{request.loading.count() / block_tokens.count()};
  const LayerBlocks all = across_layers(blocks, core.geometry.layers);
  core.tier.touch(core.prefix.keys_within(slot, request.computed, block_tokens));
  moves.arriving += all;
  moves.to_device += all;
  moves.from_tier += all;
  if (request.loads_layerwise) {
    moves.streams.push_back({LayerSet::all(core.geometry.layers), static_cast<double>(blocks.count()), {}});
  } else {
    moves.urgent_blocks += static_cast<double>(all.count());
    moves.first_blocks += static_cast<double>(all.count());
  }
  request.loading = Tokens{0};
}

SLUICE_INLINE void offer_to_tier(Core& core, std::span<const Claim> claims, Seconds now, const PolicyCalls& policies) {
  const View view = core.view(now);
  const Tokens block_tokens = core.limits.block_tokens;
  for (const Claim& claim : claims) {
    const RequestRow& request = core.row(claim.slot);
    const Tokens wanted = std::min(policies.table.write(policies.policies, view, request), request.computed);
    std::size_t& offered = core.prefix.offered(claim.slot);
    const std::span<const BlockKey> keys = core.prefix.keys_within(claim.slot, wanted, block_tokens);
    if (keys.size() <= offered) continue;
    core.tier.write(keys, offered, policies.table.worth(policies.policies, view, request));
    offered = keys.size();
  }
}

SLUICE_INLINE double write_while_idle(Core& core, Seconds now, double background_blocks, const PolicyCalls& policies) {
  const double idle_s = (now - core.tier.run_until).count();
  if (!(idle_s > 0)) return background_blocks;
  const BlockLink link = block_link(policies.table.link(policies.policies), core.geometry);
  const double possible = idle_s * (link.each_way() ? link.out_blocks_per_s : link.blocks_per_s);
  const LayerBlocks more = across_layers(TokenBlocks{core.tier.launch()}, core.geometry.layers);
  core.tier.moved_idle += more;
  const double left = std::max(0.0, background_blocks + static_cast<double>(more.count()) - possible);
  finish_writes(core, now, left);
  return left;
}

SLUICE_INLINE void launch_writes(Core& core, Moves& moves, Prepared& prepared) {
  const LayerBlocks blocks = across_layers(TokenBlocks{core.tier.launch()}, core.geometry.layers);
  moves.to_tier = blocks + std::exchange(core.tier.moved_idle, LayerBlocks{0});
  moves.to_host += moves.to_tier;
  if (core.policies->is.waits_for_writes)
    moves.written_blocks += static_cast<double>(blocks.count());
  else
    prepared.background += static_cast<double>(blocks.count());
}

SLUICE_INLINE void finish_writes(Core& core, Seconds now, double background_blocks) {
  core.tier.run_until = now;
  core.tier.crossed(std::min(core.tier.on_link(), background_blocks / core.geometry.layers));
}

} // namespace sluice

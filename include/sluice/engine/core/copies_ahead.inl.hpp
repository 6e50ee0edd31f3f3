// SPDX-License-Identifier: Apache-2.0
// Copies ahead: clean copies of full blocks on the host, made while the link is idle and given up before anything else.
#pragma once

#include "sluice/engine/core/commit_steps.hpp"
#include "sluice/engine/core/prepared.hpp"
#include "sluice/engine/core/writers.hpp"
#include "sluice/policy/transfer/block_link.hpp"

#include <algorithm>

namespace sluice {

namespace detail {

SLUICE_INLINE Holding with_copies(const Core& core, const RequestRow& request, Holding target) {
  if (!core.policies->is.copies_ahead) return target;
  const Tokens block_tokens = core.limits.block_tokens;
  TokenBlocks copied{request.computed.count() / block_tokens.count()}; // the full ones
  const LayerSet resident = LayerSet::all(core.geometry.layers) - target.away();
  resident.for_each(
      [&](int layer) { copied = std::min(copied, request.holding.on_host(layer, request.blocks, block_tokens)); });
  target.copied = resident.empty() ? Tokens{0} : Tokens{copied.count() * block_tokens.count()};
  return target;
}

SLUICE_INLINE void give_up_copies(Core& core, LayerBlocks needed) {
  if (!core.policies->is.copies_ahead) return;
  const std::int64_t block_tokens = core.limits.block_tokens.count();
  for (const auto* list : {&core.requests.preempted, &core.requests.running})
    for (auto at = list->rbegin(); at != list->rend() && needed.count() > 0; ++at) {
      RequestRow& request = core.row(*at);
      if (request.holding.copied.count() == 0) continue;
      const Footprint before = core.footprint(request);
      const std::int64_t each = core.layout.room(TokenBlocks{1}, request.resident_layers).count();
      const std::int64_t fewer = (needed.count() + each - 1) / each;
      request.holding.copied = Tokens{std::max<std::int64_t>(0, request.holding.copied.count() - fewer * block_tokens)};
      const Footprint after = core.footprint(request);
      core.ledger.replace(before, after);
      needed -= before.host - after.host;
    }
}

} // namespace detail

SLUICE_INLINE LayerBlocks copied_blocks(const Core& core) {
  LayerBlocks copied{0};
  if (!core.policies->is.copies_ahead) return copied;
  for (const Slot slot : core.requests.running) {
    const RequestRow& request = core.row(slot);
    Holding plain = request.holding;
    plain.copied = Tokens{0};
    copied += core.footprint(request).host - core.footprint(plain, request.blocks).host;
  }
  return copied;
}

SLUICE_INLINE void copy_ahead(Core& core, const PolicyCalls& policies, Seconds now, Moves& moves, Prepared& prepared) {
  double in_blocks = moves.urgent_blocks;
  for (const LayerStream& stream : moves.streams) in_blocks += stream.blocks * stream.layers.count();
  const double out_blocks =
      prepared.urgent_out + prepared.background + moves.written_blocks + detail::written_back_blocks(moves.streams);
  const double compute_s = policies.table.compute_s(policies.policies, prepared.work, core.geometry.layers);
  const BlockLink link = block_link(policies.table.link(policies.policies), core.geometry);
  const double possible = link.each_way() ? compute_s * link.out_blocks_per_s * (1 - link.mix_loss) - out_blocks
                                          : compute_s * link.blocks_per_s - out_blocks - in_blocks;
  const LayerBlocks idle{static_cast<std::int64_t>(std::max(0.0, possible))};
  LayerBlocks left =
      std::min(policies.table.copy_ahead(policies.policies, core.view(now), idle), core.ledger.host().free());
  const Tokens block_tokens = core.limits.block_tokens;
  LayerBlocks copied{0};
  for (auto at = core.requests.running.begin(); at != core.requests.running.end() && left.count() > 0; ++at) {
    RequestRow& request = core.row(*at);
    if (request.resident_layers == 0) continue;
    const std::int64_t each = core.layout.room(TokenBlocks{1}, request.resident_layers).count();
    const std::int64_t clean = request.holding.copied_blocks(request.blocks, block_tokens).count();
    const std::int64_t more = std::min(request.computed.count() / block_tokens.count() - clean, left.count() / each);
    if (more <= 0) continue;
    const Holding from = request.holding;
    request.holding.copied = Tokens{(clean + more) * block_tokens.count()};
    const Footprint before = core.footprint(from, request.blocks);
    const Footprint after = core.footprint(request);
    core.ledger.replace(before, after);
    left -= after.host - before.host;
    copied += movement(from, request.holding, request.blocks, block_tokens, core.geometry.layers).to_host;
  }
  moves.to_host += copied;
  prepared.background += static_cast<double>(copied.count());
}

} // namespace sluice

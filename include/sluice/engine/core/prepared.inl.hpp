// SPDX-License-Identifier: Apache-2.0
// Prepared: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/engine/core/prepared.hpp"
#include "sluice/policy/transfer/estimate.hpp"

#include <algorithm>

namespace sluice {

SLUICE_INLINE void gather_work(const Core& core, const Decision& decision, const Moves& moves, Prepared& prepared) {
  Work& work = prepared.work;
  work.clear();
  prepared.chunks.clear();
  prepared.hosted.clear();
  for (const Claim& claim : decision.claims) {
    const RequestRow& request = core.row(claim.slot);
    if (claim.tokens.count() == 0) continue;
    if (claim.tokens == request.pending()) ++work.samples;
    if (is_hosted(request, claim.tokens)) {
      prepared.hosted.push_back(request.computed + Tokens{1});
    } else if (claim.tokens.count() == 1 && request.pending().count() == 1) {
      work.add_decode(request.computed + Tokens{1}, core.geometry.reads());
    } else {
      prepared.chunks.push_back({claim.tokens, request.computed});
    }
  }
  work.chunks = prepared.chunks;
  work.rebuilds = moves.rebuilds;
  work.hosted = hosted_work(core.geometry, prepared.hosted, core.limits.block_tokens);
}

SLUICE_INLINE void prepare(const Core& core, const Moves& moves, double background_before, Prepared& prepared) {
  // Room for blocks in flight: the free blocks, less those evicted that have not crossed yet. If that is too little,
  // evictions go before the prefetches.
  double background = background_before + static_cast<double>(moves.leaving.count());
  double room = static_cast<double>((core.ledger.device().free() + moves.arriving).count()) - background;
  // What is written to a tier stays on the device, too, and holds no room of its own.
  if (core.policies->tiers != nullptr) room += std::min(background_before, core.tiers.calls().on_link(*core.tiers));
  double urgent_out = 0;
  if (!moves.streams.empty() || background > 0) {
    const double held = core.in_flight_blocks(moves.streams);
    urgent_out = std::clamp(std::max(held - room, static_cast<double>(moves.due.count())), 0.0, background);
    background -= urgent_out;
    room = std::max(room + urgent_out, held);
  }
  prepared.weights = core.geometry.stream_of(core.plan.weights);
  prepared.room = room;
  prepared.urgent_out = urgent_out;
  prepared.background = background;
}

} // namespace sluice

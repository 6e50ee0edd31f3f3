// SPDX-License-Identifier: Apache-2.0
// Saved states: hidden states that the host has of running requests' layers, written as they are computed (HCache).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/engine/core/committer.hpp"

#include <algorithm>

namespace sluice {

/// What is to be saved of each claim that joins. States exist while their token is computed and never again, so that a
/// request saves them from its first token on, or not until it is computed anew; one that returns has those that it
/// was kept by.
SLUICE_INLINE void Committer::ask_for_states(const Core& core, const Decision& decision, const PolicyCalls& policies,
                                             Seconds now) {
  saved_.assign(decision.claims.size(), LayerSet{});
  const View view = core.view(now);
  for (std::size_t i = 0; i < decision.claims.size(); ++i) {
    const RequestRow& request = core.row(decision.claims[i].slot);
    if (request.phase == Phase::running) continue;
    if (request.blocks.count() == 0 && request.computed.count() == 0)
      saved_[i] = policies.table.hidden_layers(policies.policies, view, request);
    else // states of a head alone would lack those of the newer tokens
      saved_[i] = request.holding.saved | (request.holding.head == all_tokens ? request.holding.hidden : LayerSet{});
    SLUICE_ASSERT(saved_[i].highest() < core.geometry.layers, "hidden_layers names layers that the model has");
  }
}

/// The layers of which the host has hidden states once the decision is fact, if they are resident: a running request
/// saves what it has saved until now.
SLUICE_INLINE LayerSet Committer::states_of(const RequestRow& request, std::size_t claim) const {
  return request.phase == Phase::running || saved_.empty() ? request.holding.saved : saved_[claim];
}

/// What the claims would like to have on the host beside the KV that must be there is given up where there is no room:
/// copies, what the last of those that join would save, and what the newest of those that run have saved.
SLUICE_INLINE void Committer::fit_host(Core& core, const Decision& decision, Change& change) {
  for (;;) { // what is given up, here or while requests were preempted, may be the claims' own
    change = change_of(core, decision, core.plan, States::counted);
    const LayerBlocks missing = change.after.host - change.before.host - core.ledger.host().free();
    if (missing <= LayerBlocks{0}) return;
    const LayerBlocks used = core.ledger.host().used();
    give_up_copies(core, missing);
    if (core.ledger.host().used() != used) continue;
    const auto last = std::find_if(saved_.rbegin(), saved_.rend(), [](LayerSet saved) { return !saved.empty(); });
    if (last != saved_.rend()) {
      *last = LayerSet{};
      continue;
    }
    give_up_states(core, missing);
    if (core.ledger.host().used() == used) return;
  }
}

SLUICE_INLINE LayerBlocks saved_blocks(const Core& core) {
  LayerBlocks saved{0};
  if (!core.policies->is.keeps_hidden) return saved;
  for (const Slot slot : core.requests.running) {
    const RequestRow& request = core.row(slot);
    saved += core.footprint(request).host - core.footprint_without_saved(request, request.blocks).host;
  }
  return saved;
}

SLUICE_INLINE void give_up_states(Core& core, LayerBlocks needed) {
  if (!core.policies->is.keeps_hidden || core.geometry.layer_hidden_bytes.count() == 0) return;
  for (const auto* list : {&core.requests.preempted, &core.requests.running})
    for (auto at = list->rbegin(); at != list->rend() && needed.count() > 0; ++at) {
      RequestRow& request = core.row(*at);
      if (request.holding.saved.empty()) continue;
      const Footprint before = core.footprint(request);
      request.holding.saved = {};
      const Footprint after = core.footprint(request);
      core.ledger.replace(before, after);
      needed -= before.host - after.host;
    }
}

SLUICE_INLINE bool give_up_on_host(Core& core, LayerBlocks needed) {
  const LayerBlocks used = core.ledger.host().used();
  give_up_copies(core, needed);
  give_up_states(core, needed - (used - core.ledger.host().used()));
  return core.ledger.host().used() != used;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Saved states: running requests' hidden states that the host has, written as they are computed (HCache).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/engine/core/commit_steps.hpp"
#include "sluice/engine/core/writers.hpp"

#include <algorithm>

namespace sluice {

namespace detail {

/// Hidden states exist only while their token is computed. So a request saves them from its first token on, or not
/// until it is recomputed; a returning request keeps those that it was restored from.
SLUICE_INLINE void ask_for_states(const Core& core, const Decision& decision, const PolicyCalls& policies, Seconds now,
                                  std::vector<LayerSet>& saved) {
  saved.assign(decision.claims.size(), LayerSet{});
  const View view = core.view(now);
  for (std::size_t i = 0; i < decision.claims.size(); ++i) {
    const RequestRow& request = core.row(decision.claims[i].slot);
    if (request.phase == Phase::running) continue;
    if (request.blocks.count() == 0 && request.computed.count() == 0)
      saved[i] = policies.table.hidden_layers(policies.policies, view, request);
    else // states of a head would lack those of the newer tokens
      saved[i] = request.holding.saved | (request.holding.head == all_tokens ? request.holding.hidden : LayerSet{});
    SLUICE_ASSERT(saved[i].highest() < core.geometry.layers, "hidden_layers names layers that the model has");
  }
}

/// A running request keeps saving the layers that it has saved so far.
SLUICE_INLINE LayerSet states_of(const RequestRow& request, std::size_t claim, std::span<const LayerSet> saved) {
  return request.phase == Phase::running || saved.empty() ? request.holding.saved : saved[claim];
}

SLUICE_INLINE void fit_host(Core& core, const Decision& decision, Change& change, CommitState& state) {
  std::vector<LayerSet>& saved = state.saved;
  for (;;) { // the copies and states given up, here or during preemption, may be the claims' own
    change = change_of(core, decision, core.plan, Spare::counted, state);
    const LayerBlocks missing = change.after.host - change.before.host - core.ledger.host().free();
    if (missing <= LayerBlocks{0}) return;
    const LayerBlocks used = core.ledger.host().used();
    give_up_copies(core, missing);
    if (core.ledger.host().used() != used) continue;
    if (core.policies->is.copies_ahead && state.keeps_copies) { // KV that returns: it is no copy yet
      state.keeps_copies = false;
      continue;
    }
    const auto last = std::find_if(saved.rbegin(), saved.rend(), [](LayerSet layers) { return !layers.empty(); });
    if (last != saved.rend()) {
      *last = LayerSet{};
      continue;
    }
    give_up_states(core, missing);
    if (core.ledger.host().used() == used) return;
  }
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

} // namespace detail

} // namespace sluice

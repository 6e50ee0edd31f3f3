// SPDX-License-Identifier: Apache-2.0
// Preemption: what happens to a preempted request's KV, when it is preempted and when its room is needed.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/engine/core/commit_steps.hpp"
#include "sluice/engine/core/writers.hpp"

#include <algorithm>

namespace sluice {

namespace detail {

/// The residency of a request after it was preempted and `kept` (`Kept::host` or `Kept::hidden`) remains of it.
SLUICE_INLINE Holding moved_to_host(const Core& core, const RequestRow& request, Kept kept) {
  Holding moved = request.holding;
  moved.head = all_tokens;
  moved.copied = Tokens{0};
  moved.saved = {};
  moved.attended_on_host = moved.states_on_device = moved.next_states = false;
  if (kept == Kept::hidden) moved.nowhere = moved.hidden = request.holding.saved;
  moved.host = LayerSet::all(core.geometry.layers) - moved.hidden;
  return moved;
}

} // namespace detail

SLUICE_INLINE Kept kept_of(const PolicyCalls& policies, const View& view, const RequestRow& request) {
  // A load that has not ended would end for a request that does not run, and leave blocks without their KV.
  if (request.computed.count() == 0 || request.waits) return Kept::nothing;
  Kept kept = policies.table.on_preempt(policies.policies, view, request);
  if (kept == Kept::device) return kept;
  // Layers held nowhere would lose their newer tokens too: nothing complete can move. Nor would KV that the host
  // attends: it takes the same room there, and none is freed in either memory.
  if (!request.holding.nowhere.empty() || request.holding.attended_on_host) return Kept::nothing;
  return kept == Kept::hidden && request.holding.saved.empty() ? Kept::host : kept;
}

SLUICE_INLINE LayerBlocks host_of(const Core& core, const RequestRow& request, Kept kept) {
  if (kept == Kept::nothing) return LayerBlocks{0};
  if (kept == Kept::device) return core.footprint_without_spare(request, request.blocks).host;
  return core.footprint(detail::moved_to_host(core, request, kept), request.blocks).host;
}

SLUICE_INLINE bool moves_once_needed(const PolicyCalls& policies, const View& view, const RequestRow& request) {
  return policies.table.on_reclaim(policies.policies, view, request) != Kept::nothing &&
         request.holding.nowhere.empty();
}

namespace detail {

/// Host memory that is free and not reserved for the decision's claims.
SLUICE_INLINE LayerBlocks host_free(const Core& core, const CommitState& state) {
  return core.ledger.host().free() - state.host_reserved;
}

/// Evicts what `target` has on the host and the request does not have there yet; it leaves in the background.
SLUICE_INLINE void evict(Core& core, RequestRow& request, const Holding& target, HiddenSize hidden, Moves& moves) {
  const LayerBlocks evicted = movement(request.holding, target, request.blocks, core.limits.block_tokens,
                                       core.geometry.layers, hidden, core.geometry.kv())
                                  .to_host;
  moves.leaving += evicted;
  moves.to_host += evicted;
  request.holding = target;
  request.resident_layers = core.geometry.layers - target.away().count();
}

SLUICE_INLINE void stop_running(Core& core, Slot slot, Seconds now) {
  RequestRow& request = core.row(slot);
  std::erase(core.requests.running, slot);
  request.phase = Phase::preempted;
  request.preempted_since = now;
  request.preempted_at_step = core.step;
  ++request.times_preempted;
}

SLUICE_INLINE void list_preempted(Core& core, Slot slot) {
  auto& preempted = core.requests.preempted;
  const auto place = std::lower_bound(preempted.begin(), preempted.end(), core.row(slot).id,
                                      [&core](Slot other, RequestId id) { return core.row(other).id < id; });
  preempted.insert(place, slot);
}

SLUICE_INLINE void preempt(Core& core, Slot slot, const Decision& decision, const PolicyCalls& policies, Seconds now,
                           CommitState& state) {
  const PolicyTable& table = policies.table;
  RequestRow& request = core.row(slot);
  stop_running(core, slot, now);
  const View view = core.view(now);
  Kept kept = decision.empties_preempted ? Kept::nothing : kept_of(policies, view, request);
  if (kept == Kept::host || kept == Kept::hidden) {
    const Holding moved = moved_to_host(core, request, kept);
    const Footprint before = core.footprint(request);
    const Footprint after = core.footprint(moved, request.blocks);
    give_up_on_host(core, after.host - before.host - host_free(core, state));
    if (after.host - before.host > host_free(core, state)) {
      kept = Kept::nothing;
    } else {
      take_host(core, after.host - before.host, now);
      core.ledger.replace(before, after);
      evict(core, request, moved, core.geometry.hidden_size(), state.moves);
    }
  }
  if (kept == Kept::nothing) drop(core, request);
  list_preempted(core, slot);
  table.tell(policies.policies, events::Preempted{request, kept, now});
}

SLUICE_INLINE void drop(Core& core, RequestRow& request) {
  const auto slot = static_cast<Slot>(&request - core.requests.rows.data());
  if (request.waits && core.policies->tiers != nullptr) core.policies->tiers->abandon(core, slot);
  request.waits = false;
  core.ledger.replace(core.footprint(request), {});
  if (core.policies->is.finds_released) {
    core.prefix.release(slot);
    core.ledger.resize_device(core.ledger.device().used() + core.prefix.free(core.geometry.layers));
  } else if (core.policies->tiers != nullptr) {
    core.prefix.arrive(slot, Tokens{0}); // lost with the rest
  }
  request.computed = request.slack = request.loading = Tokens{0};
  request.meets = 0;
  request.blocks = TokenBlocks{0};
  request.holding = Holding{};
  request.resident_layers = core.geometry.layers;
}

SLUICE_INLINE void reclaim(Core& core, LayerBlocks needed, const Decision& decision, const PolicyCalls& policies,
                           Seconds now, CommitState& state) {
  const View view = core.view(now);
  const LayerSet every = LayerSet::all(core.geometry.layers), movable = core.geometry.movable();
  in_giving_order(core, decision.next, [&](Slot slot) {
    if (needed.count() <= 0) return false;
    if (std::any_of(decision.claims.begin(), decision.claims.end(), [slot](const Claim& c) { return c.slot == slot; }))
      return true; // this decision lets the request return
    RequestRow& request = core.row(slot);
    while (needed.count() > 0 && request.blocks.count() > 0) {
      const Footprint before = core.footprint(request);
      if (before.device.count() == 0) break;
      Holding less = request.holding;
      less.head = all_tokens;
      less.attended_on_host = false;
      const int last = (movable - request.holding.away()).highest(); // none: the newer tokens go, and what is left
      if (core.layerwise() && last >= 0)
        less.host.insert(last);
      else
        less.host = every;
      if (less.away() == every) less.copied = Tokens{0}; // what was copied is now the only place
      less.saved = less.saved - less.away();
      const Footprint after = core.footprint(less, request.blocks);
      const LayerBlocks missing = after.host - before.host - host_free(core, state);
      const bool moves = moves_once_needed(policies, view, request);
      if (moves && missing.count() > 0 && give_up_on_host(core, missing)) continue; // perhaps this request's own
      if (!moves || missing.count() > 0) {
        drop(core, request);
        needed -= before.device;
        continue;
      }
      take_host(core, after.host - before.host, now);
      core.ledger.replace(before, after);
      evict(core, request, less, {}, state.moves);
      needed -= before.device - after.device;
    }
    return true;
  });
}

} // namespace detail

} // namespace sluice

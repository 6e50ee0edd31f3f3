// SPDX-License-Identifier: Apache-2.0
// report_iteration: tells observers about an iteration that has run.
#pragma once

#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/prepared.hpp"
#include "sluice/engine/policies.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// `before`: what the previous iteration left on the link, for observers that replay iterations.
template <class C>
void report_iteration(Policies<C>& policies, typename C::backend_type& backend, const Core& core, Moves& moves,
                      const Decision& decision, const Prepared& prepared, const Iteration& iteration, Seconds start,
                      const IterationCost& cost, const typename C::transfer_type::State& before) {
  constexpr bool replays = Policies<C>::observers_type::replays;
  IterationRecord record;
  record.step = core.step;
  record.start = start - prepared.planning;
  record.duration = cost.duration + prepared.planning;
  record.stall = cost.stall;
  record.planning = prepared.planning;
  record.batch = decision.claims;
  record.rows = core.requests.rows;
  if constexpr (replays && is_real_time<typename C::backend_type>) // everything that moved, not only the plan's streams
    moves.name_every_stream(core.requests.rows.size());
  record.stream_slots = moves.stream_slots;
  record.hosted = prepared.work.hosted.decodes();
  record.decodes = prepared.work.decodes + record.hosted;
  record.rebuilding = static_cast<std::int64_t>(moves.rebuilds.size());
  record.tokens = prepared.work.tokens() + Tokens{record.hosted};
  record.running = static_cast<std::int64_t>(core.requests.running.size());
  record.waiting = core.requests.waiting;
  record.preempted = static_cast<std::int64_t>(core.requests.preempted.size());
  record.device_used = core.ledger.device().used();
  record.device_capacity = core.ledger.device().capacity();
  record.in_flight = LayerBlocks{static_cast<std::int64_t>(std::max(0.0, prepared.room))};
  record.host_used = core.ledger.host().used();
  record.to_device = moves.to_device;
  record.to_host = moves.to_host;
  record.from_tier = moves.from_tier;
  record.to_tier = moves.to_tier;
  const WeightStream& weights = prepared.weights;
  record.weights = Bytes{static_cast<std::int64_t>((weights.blocks * weights.layers.count() + moves.returned_blocks) *
                                                   static_cast<double>(core.geometry.layer_block_bytes.count()))};
  record.repeated = prepared.repeated;
  record.plan = &core.plan;
  if constexpr (replays) {
    const auto evaluate = [&](TimelineSink& sink) {
      auto again = before;
      backend.template replay<typename C::transfer_type>(iteration, again, sink);
    };
    policies.tell(events::Iterated{record, TimelineReplay{evaluate}});
  } else {
    policies.tell(events::Iterated{record, TimelineReplay{}});
  }
}

} // namespace sluice

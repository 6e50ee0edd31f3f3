// SPDX-License-Identifier: Apache-2.0
// ChosenIteration: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/chosen_iteration.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice {

SLUICE_INLINE const RequestId* RecordedIteration::owner_of(const TransferSlice& transfer) const {
  const auto stream = static_cast<std::size_t>(transfer.stream);
  return transfer.stream >= 0 && stream < stream_owners.size() ? &stream_owners[stream] : nullptr;
}

SLUICE_INLINE bool RecordedIteration::of_weights(const TransferSlice& transfer) const {
  return owner_of(transfer) == nullptr && (transfer.stream >= 0 || stream_owners.empty());
}

} // namespace sluice

namespace sluice::detail {

SLUICE_INLINE void record_iteration(const IterationRecord& record, const TimelineReplay& replay,
                                    RecordedIteration& into) {
  into.layer_slices.clear();
  into.transfers.clear();
  into.step = record.step;
  into.start_s = record.start.count();
  into.duration_s = record.duration.count();
  into.stall_s = record.stall.count();
  into.planning_s = record.planning.count();
  into.batch = static_cast<std::int64_t>(record.batch.size());
  into.decodes = record.decodes;
  into.tokens = record.tokens.count();
  into.layers = 0;
  into.device_used_blocks = static_cast<double>(record.device_used.count());
  into.device_capacity_blocks = static_cast<double>(record.device_capacity.count());
  into.placed.clear();
  for (const Claim& claim : record.batch)
    if (index(claim.slot) < record.rows.size()) {
      const RequestRow& row = record.rows[index(claim.slot)];
      into.placed.push_back({row.id, row.holding.host, row.holding.nowhere});
    }
  into.stream_owners.clear();
  for (const Slot slot : record.stream_slots) into.stream_owners.push_back(record.rows[index(slot)].id);
  into.binding = record.plan != nullptr ? record.plan->binding : Binding::none;
  replay({into.layer_slices, into.transfers});
  for (LayerSlice& layer : into.layer_slices) {
    into.layers = std::max(into.layers, layer.layer + 1);
    layer.start_s += into.planning_s;
    layer.end_s += into.planning_s;
  }
  for (TransferSlice& transfer : into.transfers) {
    transfer.start_s += into.planning_s;
    transfer.end_s += into.planning_s;
  }
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE void ChosenIteration::on(State& state, const events::Iterated& event) const {
  if (wanted(state.kept, event.record)) detail::record_iteration(event.record, event.replay, state.kept);
}

SLUICE_INLINE bool ChosenIteration::wanted(const RecordedIteration& kept, const IterationRecord& record) const {
  // Among the iterations before the given step, only the first and the last can matter. The last one is not known in
  // advance, so the iterations within reach of the step are kept.
  if (step >= 0) return record.step == step || (record.step < step && (kept.empty() || step - record.step < 64));
  if (kept.empty()) return true;
  if (kept.decodes == 0 && kept.stall_s <= 0 && record.decodes > 0) return true;
  return record.stall.count() > 1.02 * kept.stall_s && record.stall.count() > 1e-12;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Core: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/engine/core/core.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice {

SLUICE_INLINE Core::Core(const PolicyTable& table, const Limits& batch_limits, const Geometry& sizes,
                         LayerBlocks device, LayerBlocks host, const TierList& below, bool attends_on_host)
    : policies(&table),
      limits(batch_limits),
      geometry(sizes),
      layout(table.room, table.is.layerwise, sizes.layers),
      device_blocks(device),
      host_attends(attends_on_host) {
  kv_capacity = capacity_with({});
  ledger = Ledger{kv_capacity, host};
  // The layers of a block that are contiguous in memory take their room together.
  geometry.segment_layers = static_cast<int>(layout.room(TokenBlocks{1}, 1).count());
  if (!geometry.alike()) { // on average over the groups
    const std::int64_t runs = layout.layerwise() ? geometry.kv().runs() : 1;
    geometry.segment_layers = static_cast<int>(std::max<std::int64_t>(1, geometry.kv().room(1) / runs));
    geometry.moved_units = geometry.kv().movable_units();
  }
  plan.made_at_step = -1;
  if (table.is.finds_released) {
    const bool each = table.tiers != nullptr || table.is.parts_with; // tiers and parting requests ask for single blocks
    prefix = geometry.alike() ? PrefixReuse{TokenBlocks{kv_capacity.count() / geometry.layers}, each}
                              : PrefixReuse{kv_capacity, geometry.kv(), table.keeps_checkpoint};
  }
  if (table.tiers == nullptr) return;
  if (!table.is.finds_released) prefix = PrefixReuse{TokenBlocks{0}, true}; // it keeps keys, and finds none of them
  const CachingTable& caching = *table.caching;
  tiers = OwnedTiers(*table.tiers, below, geometry.layer_block_bytes * geometry.layers, caching.feed);
  if (caching.writes == Writes::evicted) prefix.note_overwritten();
}

SLUICE_INLINE const RequestRow* Core::find(RequestId id) const {
  for (const RequestRow& request : requests.rows)
    if (request.id == id && request.phase != Phase::ended) return &request;
  return nullptr;
}

SLUICE_INLINE bool Core::finds_the_same(Slot slot) const {
  const RequestRow& request = row(slot);
  if (request.times_lost > 0 && request.lost_at == request.generated.count()) return request.computed.count() == 0;
  if (policies->is.finds_released && !prefix.finds_the_same(slot, request, limits.block_tokens)) return false;
  if (policies->tiers == nullptr) return true; // what a backend keeps for a request stays
  return tiers.calls().holds(*tiers, prefix.loaded_keys(slot, request, limits.block_tokens));
}

SLUICE_INLINE View Core::view(Seconds now) const {
  View view;
  view.now = now;
  view.step = step;
  view.limits = limits;
  view.geometry = geometry;
  view.rows = requests.rows;
  view.running = requests.running;
  view.preempted = requests.preempted;
  view.waiting = requests.waiting;
  view.ledger = &ledger;
  view.plan = &plan;
  view.finished = finished;
  view.last_finish_step = last_finish_step;
  view.served = &served;
  view.lengths = &lengths;
  return view;
}

SLUICE_INLINE Footprint Core::footprint_away(const Holding& holding, TokenBlocks blocks) const {
  if (!geometry.alike()) return footprint_of(geometry.kv(), holding, blocks, limits.block_tokens, geometry.layers);
  return footprint_by([this](TokenBlocks some, int held) { return layout.room(some, held); }, holding, blocks,
                      limits.block_tokens, geometry.layers, geometry.hidden_size());
}

SLUICE_INLINE LayerBlocks Core::spare_blocks() const {
  LayerBlocks spare{0};
  if (!policies->is.copies_ahead && !policies->is.keeps_hidden) return spare;
  for (const auto* list : {&requests.running, &requests.preempted})
    for (const Slot slot : *list) {
      const RequestRow& request = row(slot);
      spare += footprint(request).host - footprint_without_spare(request, request.blocks).host;
    }
  return spare;
}

SLUICE_INLINE double Core::in_flight_blocks(std::span<const LayerStream> streams) const {
  LayerArray loads; // only the model's layers are set, by `layer_loads`
  Pipeline pipeline;
  pipeline.compute_s = {loads.data(), static_cast<std::size_t>(geometry.layers)}; // for its size
  pipeline.streams = streams;
  detail::layer_loads(pipeline, loads);
  return policies->held_blocks({loads.data(), static_cast<std::size_t>(geometry.layers)}, streams) +
         detail::leaving_blocks(streams);
}

SLUICE_INLINE LayerBlocks Core::in_flight(std::span<const LayerStream> streams) const {
  return LayerBlocks{static_cast<std::int64_t>(math::ceil(in_flight_blocks(streams)))};
}

} // namespace sluice

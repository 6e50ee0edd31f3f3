// SPDX-License-Identifier: Apache-2.0
// Summary: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/summary.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice {

SLUICE_INLINE Summary::State merged(std::span<const Summary::State* const> parts) {
  Summary::State all;
  for (const Summary::State* part : parts) {
    if (all.layer_block_bytes == Bytes{0}) all.layer_block_bytes = part->layer_block_bytes;
    const auto reasons = static_cast<std::int32_t>(all.reasons.size());
    all.reasons.insert(all.reasons.end(), part->reasons.begin(), part->reasons.end());
    for (RequestRecord request : part->requests) {
      if (request.reason >= 0) request.reason += reasons;
      all.requests.push_back(request);
    }
    all.gaps.insert(all.gaps.end(), part->gaps.begin(), part->gaps.end());
    all.planning_s.insert(all.planning_s.end(), part->planning_s.begin(), part->planning_s.end());
    all.planning_wall_s.insert(all.planning_wall_s.end(), part->planning_wall_s.begin(), part->planning_wall_s.end());
    all.counted_plans += part->counted_plans;
    all.planning_total_s += part->planning_total_s;
    all.planning_wall_total_s += part->planning_wall_total_s;
    all.iterations += part->iterations;
    all.repeated += part->repeated;
    all.rebuilding += part->rebuilding;
    all.busy_s += part->busy_s;
    all.stall_s += part->stall_s;
    all.planning_wait_s += part->planning_wait_s;
    const double size = all.layer_block_bytes.count() > 0 ? static_cast<double>(part->layer_block_bytes.count()) /
                                                                static_cast<double>(all.layer_block_bytes.count())
                                                          : 1;
    const auto in_its = [size](LayerBlocks blocks) {
      return LayerBlocks{static_cast<std::int64_t>(static_cast<double>(blocks.count()) * size)};
    };
    all.device_block_seconds += part->device_block_seconds * size;
    all.device_peak += in_its(part->device_peak);
    all.device_capacity += in_its(part->device_capacity);
    all.host_peak += in_its(part->host_peak);
    all.to_device += in_its(part->to_device);
    all.to_host += in_its(part->to_host);
    all.weights += part->weights;
    all.last_event = std::max(all.last_event, part->last_event);
    all.rates_from = part->rates_from; // the same in all parts: one comparison has one warm-up and one horizon
    all.rates_until = std::min(all.rates_until, part->rates_until);
  }
  return all;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// planning_instances: the random planning problems for which the planner's speed is reported.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/state/plan/instance.hpp"

#include <cmath>
#include <cstddef>

namespace sluice::bench {

/// Blocks per request and layer log-uniform 20..2000; the whole KV of a layer takes 2 to 12 layer times to transfer;
/// the budget is 50 to 98 % of all layer blocks; cold.
inline Instance random_instance(Random& random, std::size_t requests, int layers) {
  Instance instance;
  instance.layer_compute_s.assign(static_cast<std::size_t>(layers), 1e-3);
  double per_layer = 0;
  for (std::size_t r = 0; r < requests; ++r) {
    InstanceRequest request;
    request.blocks = LayerBlocks{std::llround(20 * std::pow(100.0, random.uniform()))};
    per_layer += static_cast<double>(request.blocks.count());
    instance.requests.push_back(request);
  }
  instance.link_blocks_per_s = per_layer / ((2 + 10 * random.uniform()) * 1e-3);
  instance.device_blocks = LayerBlocks{std::llround((0.5 + 0.48 * random.uniform()) * per_layer * layers)};
  return instance;
}

} // namespace sluice::bench

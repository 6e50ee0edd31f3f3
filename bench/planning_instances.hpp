// SPDX-License-Identifier: Apache-2.0
// planning_instances: the random planning problems for which the planner's speed is reported.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/policy/placement/solver/joint_instance.hpp"
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

/// The same with KV that may be rebuilt, from hidden states that a half of the requests have on the host in every layer
/// (half as large as K and V), and with 0, 1/8, 1/4 or 1/2 of the layers' weights streamed. A layer's weights are as
/// large as all KV of a layer; to project a layer's K and V takes up to half of the time in which they would cross the
/// link, and to pass a layer three times as long.
inline JointInstance random_joint_instance(Random& random, std::size_t requests, int layers) {
  JointInstance joint;
  joint.base = random_instance(random, requests, layers);
  double per_layer = 0;
  for (const InstanceRequest& request : joint.base.requests) {
    const auto blocks = static_cast<double>(request.blocks.count());
    per_layer += blocks;
    RebuildCost cost;
    if (random.below(2) == 0) cost.states = LayerSet::all(layers);
    cost.state_blocks = blocks / 2;
    cost.project_s = random.uniform() * 0.5 * blocks / joint.base.link_blocks_per_s;
    cost.pass_s = 3 * cost.project_s;
    joint.rebuilds.push_back(cost);
  }
  for (const int streamed : {0, layers / 8, layers / 4, layers / 2}) {
    WeightLevel level;
    if (streamed > 0) {
      const int every = layers / streamed;
      for (int layer = every - 1; layer < layers; layer += every) level.weights.layers.insert(layer);
      level.weights.blocks = per_layer;
      level.weights.slots = 2;
      level.gained_blocks = per_layer * (streamed - 2);
    }
    joint.levels.push_back(level);
  }
  return joint;
}

} // namespace sluice::bench

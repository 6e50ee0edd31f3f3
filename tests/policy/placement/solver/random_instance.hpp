// SPDX-License-Identifier: Apache-2.0
// random_instance: small planning instances of every kind.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/state/plan/instance.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice::test {

/// Up to 4 requests and 12 layers, from easy to impossible.
inline Instance random_instance(Random& random, bool slo, int most_requests = 4, int most_layers = 12) {
  Instance instance;
  const int layers = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most_layers)));
  const bool uneven = random.below(3) == 0;
  for (int l = 0; l < layers; ++l) instance.layer_compute_s.push_back(uneven ? 0.5 + random.uniform() : 1.0);
  const int requests = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most_requests)));
  double per_layer = 0;
  for (int r = 0; r < requests; ++r) {
    InstanceRequest request;
    request.blocks = LayerBlocks{static_cast<std::int64_t>(1 + random.below(40))};
    if (r > 0 && random.below(4) == 0) request.blocks = instance.requests.back().blocks; // equal requests
    per_layer += static_cast<double>(request.blocks.count());
    instance.requests.push_back(request);
  }
  instance.link_blocks_per_s = per_layer / (1 + 11 * random.uniform());
  if (random.below(4) == 0) instance.link_per_layer_s = 0.3 * random.uniform();
  if (random.below(4) == 0) instance.before_s = random.uniform();
  if (random.below(4) == 0) instance.after_s = random.uniform();
  instance.device_blocks = LayerBlocks{std::llround((0.05 + 1.0 * random.uniform()) * per_layer * layers)};
  if (random.below(5) == 0) instance.iterations = 2 + static_cast<int>(random.below(2));
  if (random.below(8) == 0) {
    for (int l = 0; l < layers; ++l)
      if (random.below(2) == 0) instance.weights.layers.insert(l);
    instance.weights.blocks = static_cast<double>(1 + random.below(20));
    instance.weights.slots = 1 + static_cast<int>(random.below(2));
  }
  if (slo) {
    instance.alpha = static_cast<double>(random.below(3));
    instance.window_max = 1 + static_cast<int>(random.below(4));
    instance.window_min = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(instance.window_max)));
    instance.paused_without_deposit = static_cast<int>(random.below(2));
    const double slo_s = layers * (0.9 + 1.2 * random.uniform());
    for (InstanceRequest& request : instance.requests) {
      request.slo_s = random.below(6) == 0 ? std::numeric_limits<double>::infinity() : slo_s;
      if (random.below(2) == 0) request.deposit = static_cast<std::int64_t>(random.below(3));
      if (random.below(2) == 0)
        request.tokens = Tokens{request.blocks.count() * 16 - static_cast<std::int64_t>(random.below(16))};
    }
  }
  if (random.below(6) == 0) instance.on_link = 0.8 * random.uniform();
  return instance;
}

} // namespace sluice::test

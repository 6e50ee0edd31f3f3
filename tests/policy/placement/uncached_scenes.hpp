// SPDX-License-Identifier: Apache-2.0
// UncachedScene: random placement tasks of real models on real devices, for TokenWise and its optimisers.
#pragma once

#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/placement/uncached_problem.hpp"

#include "support/hand_made.hpp"

#include <vector>

namespace sluice::testing {

/// Requests that decode on a model and a device with less KV memory than they all need.
struct UncachedScene {
  ModelShape shape;
  Device device;
  Roofline cost;
  HandMade world;
  std::vector<Claim> claims;
  std::size_t required = 0;
  LayerBlocks device_budget{0};
  LayerBlocks host_budget{0};
  View view{};

  template <class Cost>
  [[nodiscard]] PlacementTask<Cost, DeadlinePool, PerLayer> task_with(const Cost& with) const {
    return {view, claims, required, device_budget, host_budget, with, Window{1, 1}, true, 0};
  }
  [[nodiscard]] PlacementTask<Roofline, DeadlinePool, PerLayer> task() const { return task_with(cost); }

  UncachedScene(ModelShape of, Device on) : shape(std::move(of)), device(std::move(on)), cost(shape, device) {}
  UncachedScene(const UncachedScene& other)
      : shape(other.shape),
        device(other.device),
        cost(other.cost),
        world(other.world),
        claims(other.claims),
        required(other.required),
        device_budget(other.device_budget),
        host_budget(other.host_budget) {
    look();
  }
  UncachedScene& operator=(const UncachedScene&) = delete;
  void look() { view = world.view(); }
};

inline UncachedScene random_scene(Random& random, int requests) {
  Device device = random.below(2) == 0 ? gh200_96() : a100_80();
  UncachedScene scene(random.below(2) == 0 ? llama2_13b() : llama3_8b(), device);
  const ModelShape& shape = scene.shape;
  scene.world.limits = {.batch = requests, .batch_tokens = Tokens{4096}};
  scene.world.geometry = {shape.layers, shape.layer_block_bytes(Tokens{16}), shape.layer_weight_bytes(),
                          shape.layer_hidden_bytes(Tokens{16})};
  std::int64_t blocks = 0;
  const bool tight = random.below(3) == 0;
  for (int i = 0; i < requests; ++i) {
    const Slot slot =
        scene.world.decoding(Tokens{between(random, 20, 1500)}, Tokens{between(random, 1, 500)}, Tokens{900});
    scene.world.rows.back().spec.slo.tbt = Seconds{tight ? 0.03 : 0.2};
    scene.world.rows.back().last_token = scene.world.now - Seconds{0.005 * random.uniform()};
    scene.claims.push_back({slot, Tokens{1}, Tokens{0}, false});
    blocks += scene.world.rows.back().blocks.count() + 1;
  }
  scene.required = static_cast<std::size_t>(between(random, 0, requests / 2));
  for (std::size_t i = 0; i < scene.required; ++i) scene.claims[i].required = true;
  const double share = 0.3 + 0.8 * random.uniform();
  scene.device_budget = LayerBlocks{static_cast<std::int64_t>(share * static_cast<double>(blocks)) * shape.layers};
  scene.host_budget = LayerBlocks{random.below(4) == 0 ? between(random, 0, blocks * shape.layers / 4) : 1 << 30};
  scene.look();
  return scene;
}

template <class Task>
UncachedSums sums_of(const Task& task) {
  UncachedSums sums;
  sums.gather(task);
  return sums;
}

inline UncachedLayers random_layers(Random& random) {
  return {ellm_pairs[static_cast<std::size_t>(random.below(6))], random.below(2) == 0};
}

/// Every whole batch with every of `steps` + 1 shares.
template <class Problem>
BatchShare best_on_grid(const Problem& problem, int steps) {
  BatchShare best;
  for (std::int64_t b = std::max<std::int64_t>(1, problem.least); b <= problem.most; ++b)
    for (int step = 0; step <= steps; ++step) {
      const double r = problem.most_share * step / steps;
      const auto batch = static_cast<double>(b);
      if (problem.room(batch, r) > problem.room_budget || problem.host_room(batch, r) > problem.host_budget) continue;
      const double seconds = problem.seconds(batch, r);
      if (seconds > problem.limit_s(batch)) continue;
      const BatchShare one{true, b, r, seconds};
      if (one.rate() > best.rate()) best = one;
    }
  return best;
}

} // namespace sluice::testing

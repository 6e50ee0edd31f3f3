// SPDX-License-Identifier: Apache-2.0
// LookedAt: checks what a machine measures of each iteration.
#pragma once

#include "sluice/world/real/world.hpp"
#include "sluice/world/real/world_of.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

namespace sluice::testing {

/// Checks what a machine measures in each iteration. (The thread that steps the engine runs it.)
class LookedAt final : public WorldOf<RealBackend> {
 public:
  /// `clock`: the permitted difference between the clocks of the host and of the device.
  LookedAt(std::shared_ptr<BackendWorld> machine, Seconds clock)
      : WorldOf(RealBackend{std::move(machine)}), clock_(clock) {}

  IterationCost wait(const Iteration& iteration) override {
    const IterationCost cost = WorldOf::wait(iteration);
    const std::span<const double> layers = computed_layers();
    const double all = std::accumulate(layers.begin(), layers.end(), 0.0);
    const bool right = layers.size() == static_cast<std::size_t>(iteration.view.geometry.layers) &&
                       std::all_of(layers.begin(), layers.end(), [](double one) { return one >= 0; }) && all > 0 &&
                       all + cost.stall.count() <= cost.duration.count() * (1 + 1e-9) + clock_.count();
    wrong += right ? 0 : 1;
    ++iterations;
    return cost;
  }
  int iterations = 0;
  int wrong = 0; ///< iterations without a time for each layer, or shorter than their layers and stalls

 private:
  Seconds clock_;
};

} // namespace sluice::testing

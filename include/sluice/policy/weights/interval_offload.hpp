// SPDX-License-Identifier: Apache-2.0
// IntervalOffload: the last layer of every interval of layers streams its weights from the host (Select-N, DeepSpeed).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/weights/weights.hpp"

#include <vector>

namespace sluice {

/// The level of an interval: the last layer of every `interval` layers passes through one slot. Its transfer starts
/// when the slot is free, which is when the interval's first layer starts (Select-N, 4.2, Fig. 7). With an interval of
/// 1, every layer is fetched while the one before it computes, which takes two slots (DeepSpeed-Inference, ZeRO). With
/// an interval above the number of layers, nothing streams.
///
/// Where layers differ, the interval counts those that may stream. In a pattern of p layers with k of these, every
/// k-th one is a multiple of p layers from the last: the same as an interval over all layers that the pattern divides.
[[nodiscard]] inline WeightsLevel interval_level(const Geometry& geometry, int interval) {
  LayerSet streamed;
  int rest = interval;
  geometry.streamable().for_each([&](int layer) {
    if (--rest > 0) return;
    streamed.insert(layer);
    rest = interval;
  });
  if (streamed.empty()) return {};
  return WeightsLevel::of(geometry, streamed, interval == 1 ? 2 : 1);
}

/// One fixed interval for every batch.
struct IntervalOffload {
  using role = roles::Weights;
  static constexpr bool promises = false;
  static constexpr bool lends = false;
  struct State {};

  int interval = 1; ///< at least 1
  static constexpr auto numbers = Numbers{"IntervalOffload", Number{"interval", &IntervalOffload::interval, 1, 1e5,
                                                                    "one in so many layers is on the host"}};

  template <class Task>
  void offer(const Task& task, State& /*state*/, std::vector<WeightsLevel>& levels) const {
    levels.push_back(interval_level(task.view.geometry, interval));
  }
  [[nodiscard]] LayerBlocks most_freed(const Geometry& geometry) const {
    return interval_level(geometry, interval).plan.freed;
  }
};

static_assert(Weights<IntervalOffload>);

} // namespace sluice

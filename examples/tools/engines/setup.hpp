// SPDX-License-Identifier: Apache-2.0
// Setup: what all systems of a program share: machine, limits, and the parameters of single policies.
#pragma once

#include "sluice/model/device/device.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/state/view/view.hpp"

#include "engines/cost_choice.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

namespace sluice {
class IntervalRecord;
}

namespace engines {

/// Parameters of single policies that the command line sets; empty: the policy's default.
struct Tuned {
  double alpha = 1;                         ///< misses per step that OrbitFlow's plans may accept
  std::optional<std::int64_t> plan_nodes{}; ///< most placements that its planner evaluates
  sluice::Seconds max_wait{std::numeric_limits<double>::infinity()}; ///< OrbitFlow's longest pause
  std::optional<sluice::TokenBlocks> rotation{}; ///< blocks that SuperInfer may move beyond the free memory
  std::optional<double> lag_alpha{}, lag_first{}, lag_next{}; ///< SuperInfer's alpha, beta_F, beta_B
  std::optional<int> interval{};                              ///< for DeepSpeedWeights; 1 is DeepSpeed's
  std::optional<int> remapped{};                              ///< the most layers whose memory Mirage lends
};

struct Setup {
  sluice::Limits limits;
  sluice::Geometry geometry;
  sluice::LayerBlocks device_blocks{0};
  sluice::LayerBlocks host_blocks{0};
  sluice::TokenBlocks worst_batch{0}; ///< for FlexGen
  Tuned tuned{};
  CostChoice cost;                                        ///< for the planner and for the simulated machine
  std::shared_ptr<const sluice::IntervalRecord> record{}; ///< the record that Select-N looks up; null: it makes its own
  sluice::ModelShape model;                               ///< for FlexGen's estimate by peak rates
  sluice::Device device;
  int engines_on_bus = 1;
  bool calibrates = false; ///< whether cost models that can learn from measured iterations do so
};

} // namespace engines

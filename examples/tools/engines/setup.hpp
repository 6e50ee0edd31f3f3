// SPDX-License-Identifier: Apache-2.0
// Setup: what all systems of a program share: machine, limits, and the numbers of single policies.
#pragma once

#include "sluice/model/device/device.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/view/view.hpp"

#include "engines/cost_choice.hpp"
#include "engines/host_caching.hpp"

#include <memory>
#include <string>
#include <vector>

namespace sluice {
class IntervalRecord;
}

namespace engines {

/// A policy's number and its value, as `engines::read_setting` has checked it.
struct NumberSetting {
  std::string policy, name;
  double value = 0;
};

struct Setup {
  sluice::Limits limits;
  sluice::Geometry geometry;
  std::shared_ptr<const sluice::KvLayers> groups{}; ///< what `geometry` names, of layers that keep different amounts
  sluice::LayerBlocks device_blocks{0};
  sluice::LayerBlocks host_blocks{0};
  std::vector<sluice::Tier> lower_tiers{};                ///< below the host, for systems that cache
  sluice::TokenBlocks worst_batch{0};                     ///< for FlexGen
  std::vector<NumberSetting> numbers{};                   ///< those that differ from the policies' defaults
  CostChoice cost;                                        ///< for the planner and for the simulated machine
  std::shared_ptr<const sluice::IntervalRecord> record{}; ///< the record that Select-N looks up; null: it makes its own
  sluice::ModelShape model;                               ///< for FlexGen's estimate by peak rates
  sluice::Device device;
  int engines_on_bus = 1;
  HostCaching host_caching{}; ///< on a real machine
  bool calibrates = false;    ///< whether cost models that can learn from measured iterations do so
};

} // namespace engines

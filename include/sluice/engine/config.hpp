// SPDX-License-Identifier: Apache-2.0
// EngineConfig: everything an engine is made from.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/view/view.hpp"

namespace sluice {

/// Everything an engine of this composition is made from, `E::Config`; that of a rejected composition takes anything.
/// Policies are values: those that are not set are default-constructed. The cost models, the planner's and the one in a
/// simulated backend, have no default: they describe hardware, which the user has to name.
template <class C>
struct EngineConfig {
  Limits limits;
  Geometry geometry;
  /// Device memory for KV when all weights are resident, blocks in flight included. Below 0 where the weights alone are
  /// larger than the device, for engines whose weights can stream.
  LayerBlocks device_blocks{0};
  LayerBlocks host_blocks{0}; ///< host memory for KV
  typename C::cost_type cost; ///< the planner's
  typename C::backend_type backend;
  typename C::admission_type admission{};
  typename C::placement_type placement{};
  typename C::weights_type weights{};
  typename C::replan_type replan{};
  typename C::relief_type relief{};
  typename C::retention_type retention{};
  typename C::delivery_type delivery{};
  typename C::lookahead_type lookahead{};
  typename C::observer_values observers{};
};

} // namespace sluice

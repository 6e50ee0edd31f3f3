// SPDX-License-Identifier: Apache-2.0
// Solution: what a planner found, what it knows about it, and why there is no better.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/plan/plan.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace sluice {

/// The outcome of planning an `Instance`. Plain and printable.
struct Solution {
  bool feasible = false;
  /// What stands in the way: of any plan if infeasible (`device_memory`, `slo`), else of a better one. `search` where
  /// the deadline came before a feasible plan was found, so that the planner cannot say whether there is one.
  Binding binding = Binding::none;
  std::vector<LayerSet> offloaded; ///< one set per request, layers from 0; the least bad found if infeasible
  double resident_blocks = 0;
  double buffer_blocks = 0;                                 ///< in flight, by the buffer count of the planner
  double step_s = std::numeric_limits<double>::infinity();  ///< mean over the instance's iterations
  double stall_s = std::numeric_limits<double>::infinity(); ///< the same
  double lower_bound_s = 0;                                 ///< no feasible plan of the space is shorter
  bool proven_optimal = false;                              ///< no feasible plan of the space is shorter than this one
  int window = 0; ///< the longest of [min, max] through which memory and SLO hold; 0 if infeasible
  /// The second best cost met on the way: an upper bound on what the next best plan costs, infinite if none was met.
  double next_best_s = std::numeric_limits<double>::infinity();
  std::int64_t nodes = 0; ///< partial assignments looked at, and plans evaluated
};

} // namespace sluice

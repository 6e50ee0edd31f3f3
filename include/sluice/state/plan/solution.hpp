// SPDX-License-Identifier: Apache-2.0
// Solution: what a planner found, what it proved, and why there is no better plan.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/state/plan/plan.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace sluice {

/// The outcome of planning an `Instance`. Plain and printable.
struct Solution {
  bool feasible = false;
  /// What prevents any plan if infeasible (`device_memory`, `slo`), otherwise what prevents a better one. `search`: the
  /// search ended before a feasible plan was found, so the planner cannot say whether there is one.
  Binding binding = Binding::none;
  std::vector<LayerSet> offloaded; ///< one set per request, layers from 0; the least bad one if infeasible
  double resident_blocks = 0;
  double buffer_blocks = 0;                                 ///< in flight, by the planner's buffer count
  double step_s = std::numeric_limits<double>::infinity();  ///< mean over the instance's iterations
  double stall_s = std::numeric_limits<double>::infinity(); ///< the same
  double lower_bound_s = 0;                                 ///< no feasible plan in the space is shorter
  bool proven_optimal = false;                              ///< no feasible plan in the space is shorter than this one
  int window = 0; ///< the longest of [min, max] for which memory and SLO hold; 0 if infeasible
  /// The second best cost found: an upper bound on the cost of the next best plan; infinite if none was found.
  double next_best_s = std::numeric_limits<double>::infinity();
  std::int64_t nodes = 0; ///< partial plans examined and plans evaluated
};

} // namespace sluice

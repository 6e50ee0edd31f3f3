// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/orbitflow_baselines.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System dynamic_heuristic() {
  return entry<sluice::DynamicHeuristic>("DynamicHeuristic",
                                         "the fewest evenly spaced layers that fit, chosen in every step");
}

} // namespace engines

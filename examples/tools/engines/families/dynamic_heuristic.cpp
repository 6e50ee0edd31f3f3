// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/dynamic_heuristic.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System dynamic_heuristic() {
  return entry<sluice::DynamicHeuristic>("DynamicHeuristic", "every step the fewest even layers that fit");
}

} // namespace engines

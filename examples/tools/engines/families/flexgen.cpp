// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/orbitflow_baselines.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System flexgen() { return entry<sluice::FlexGen>("FlexGen", "one fixed even placement, for the worst batch"); }
System flexgen_plus() { return entry<sluice::FlexGenPlus>("FlexGenPlus", "the same, for each batch's worst lengths"); }

} // namespace engines

// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/orbitflow_baselines.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System slo_aware() { return entry<sluice::SloAware>("SloAware", "the smallest uniform distance that meets the SLO"); }

} // namespace engines

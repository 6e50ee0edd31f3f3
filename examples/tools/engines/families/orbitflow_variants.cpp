// SPDX-License-Identifier: Apache-2.0
#include "engines/entry.hpp"
#include "engines/published.hpp"
#include "engines/variants.hpp"

namespace engines {

System orbitflow_srtf() {
  System system =
      simulated_entry<OrbitFlowSrtf, sluice::Parts<>>("OrbitFlowSrtf", "variant: the shortest remaining first");
  system.variant = true;
  return system;
}
System orbitflow_pause_shortest() {
  System system = simulated_entry<OrbitFlowPauseShortest, sluice::Parts<>>("OrbitFlowPauseShortest",
                                                                           "variant: the shortest context is paused");
  system.variant = true;
  return system;
}
System orbitflow_pause_random() {
  System system = simulated_entry<OrbitFlowPauseRandom, sluice::Parts<>>("OrbitFlowPauseRandom",
                                                                         "variant: a random request is paused");
  system.variant = true;
  return system;
}
System orbitflow_even() {
  System system = simulated_entry<OrbitFlowEven, sluice::Parts<>>(
      "OrbitFlowEven", "variant: any number of layers evenly spaced, besides distances");
  system.variant = true;
  return system;
}

System flexgen_fixed() {
  System system =
      simulated_entry<FlexGenFixed, sluice::Parts<>>("FlexGenFixed", "variant: every second layer, for good");
  system.variant = true;
  return system;
}

} // namespace engines

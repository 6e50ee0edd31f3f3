// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/orbitflow.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System orbitflow_uniform() {
  return entry<sluice::OrbitFlowUniform>("OrbitFlowUniform", "ablation: the best single distance");
}
System orbitflow_request_wise() {
  return entry<sluice::OrbitFlowRequestWise>("OrbitFlowRequestWise", "ablation: + a distance for each request");
}
System orbitflow_pause() {
  System system = simulated_entry<sluice::OrbitFlow, OrbitFlowRules>(
      "OrbitFlowPause", "ablation: + pause and resume; with the deposit it is OrbitFlow");
  system.deposit_never = true;
  return system;
}
System orbitflow() {
  return entry<sluice::OrbitFlow, OrbitFlowRules>("OrbitFlow",
                                                  "per-request distances, pause and resume, token deposit");
}
System orbitflow_pool() {
  System system =
      entry<sluice::OrbitFlowPool, sluice::Parts<>>("OrbitFlowPool", "OrbitFlow on the pooled transfer rule");
  system.simulate = orbitflow().simulate; // OrbitFlow is compiled for this rule too
  system.rule = sluice::DeadlinePool::name;
  return system;
}

} // namespace engines

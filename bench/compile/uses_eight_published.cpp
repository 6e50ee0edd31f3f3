// SPDX-License-Identifier: Apache-2.0
// Compile cost of a program that uses eight published engines from sluice::compiled.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/orbitflow_baselines.hpp"
#include "sluice/engine/systems/vllm.hpp"

namespace {

template <class E>
sluice::Stepped serve(typename E::Config config, const sluice::RequestSpec& request) {
  auto engine = E::make(std::move(config));
  if (!engine || !engine->submit(request)) return sluice::Stepped::idle;
  return engine->step();
}

} // namespace

#define SLUICE_SERVE(E)                                                                                                \
  sluice::Stepped serve_##E(sluice::E::Config config, const sluice::RequestSpec& request) {                            \
    return serve<sluice::E>(std::move(config), request);                                                               \
  }
SLUICE_SERVE(VllmRecompute)
SLUICE_SERVE(VllmSwap)
SLUICE_SERVE(DeepSpeedInference)
SLUICE_SERVE(FlexGen)
SLUICE_SERVE(SloAware)
SLUICE_SERVE(DynamicHeuristic)
SLUICE_SERVE(OrbitFlow)
SLUICE_SERVE(OrbitFlowPool)

// SPDX-License-Identifier: Apache-2.0
// Compile cost of a comparison with eight engines of its own: published systems that differ in placement, rule, relief
// and delivery, each with one policy replaced, so that no library contains them.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/orbitflow_baselines.hpp"
#include "sluice/engine/systems/vllm.hpp"

namespace mine { // a named namespace, as in one_engine.cpp

template <class Policy>
struct Mine : Policy {};

template <class E>
sluice::Stepped serve(typename E::Config config, const sluice::RequestSpec& request) {
  auto engine = E::make(std::move(config));
  if (!engine || !engine->submit(request)) return sluice::Stepped::idle;
  return engine->step();
}

#define SLUICE_SERVE(E)                                                                                                \
  sluice::Stepped serve_##E(sluice::With<sluice::E, Mine<sluice::E::delivery_type>>::Config config,                    \
                            const sluice::RequestSpec& request) {                                                      \
    return serve<sluice::With<sluice::E, Mine<sluice::E::delivery_type>>>(std::move(config), request);                 \
  }
SLUICE_SERVE(VllmRecompute)
SLUICE_SERVE(VllmSwap)
SLUICE_SERVE(DeepSpeedInference)
SLUICE_SERVE(FlexGen)
SLUICE_SERVE(SloAware)
SLUICE_SERVE(DynamicHeuristic)
SLUICE_SERVE(OrbitFlow)
SLUICE_SERVE(OrbitFlowPool)

} // namespace mine

// SPDX-License-Identifier: Apache-2.0
// Compile cost of a program that uses a published engine from sluice::compiled.
#include "sluice/engine/systems/orbitflow.hpp"

sluice::Stepped serve(sluice::OrbitFlow::Config config, const sluice::RequestSpec& request) {
  auto engine = sluice::OrbitFlow::make(std::move(config));
  if (!engine || !engine->submit(request)) return sluice::Stepped::idle;
  return engine->step();
}

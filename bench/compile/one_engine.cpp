// SPDX-License-Identifier: Apache-2.0
// What a program pays for one engine, the most expensive of the published systems.
#include "sluice/systems/orbitflow.hpp"

sluice::Stepped serve(sluice::OrbitFlow& engine, const sluice::RequestSpec& request) {
  if (!engine.submit(request)) return sluice::Stepped::idle;
  return engine.step();
}

sluice::Expected<sluice::OrbitFlow> start(sluice::OrbitFlow::Config config) {
  return sluice::OrbitFlow::make(std::move(config));
}

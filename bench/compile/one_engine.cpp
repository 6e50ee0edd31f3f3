// SPDX-License-Identifier: Apache-2.0
// What a program pays for one engine of its own: the most expensive of the published systems, with one policy replaced,
// so that no library has it.
#include "sluice/engine/systems/orbitflow.hpp"

namespace mine { // a name of its own: what is made of types without one is nobody's, and the compiler drops it

struct MyDelivery : sluice::TokenDeposit {};
using MyEngine = sluice::With<sluice::OrbitFlow, MyDelivery>;

sluice::Stepped serve(MyEngine::Config config, const sluice::RequestSpec& request) {
  auto engine = MyEngine::make(std::move(config));
  if (!engine || !engine->submit(request)) return sluice::Stepped::idle;
  return engine->step();
}

} // namespace mine

// SPDX-License-Identifier: Apache-2.0
// Compile cost of a program with one engine of its own: the most expensive of the published systems, with one policy
// replaced, so that no library contains it.
#include "sluice/engine/systems/orbitflow.hpp"

namespace mine { // named: instantiations with types of an anonymous namespace are local, and the compiler drops them

struct MyDelivery : sluice::TokenDeposit {};
using MyEngine = sluice::With<sluice::OrbitFlow, MyDelivery>;

sluice::Stepped serve(MyEngine::Config config, const sluice::RequestSpec& request) {
  auto engine = MyEngine::make(std::move(config));
  if (!engine || !engine->submit(request)) return sluice::Stepped::idle;
  return engine->step();
}

} // namespace mine

// SPDX-License-Identifier: Apache-2.0
// Two policies of one role: the engine must not guess which one to use.
// sentences: 1
// says: two Delivery policies in one engine: keep one of them
#include "sluice/engine/engine.hpp"
#include "sluice/policy/delivery/token_deposit.hpp"

using namespace sluice;
#ifdef GOOD
using E = Engine<TokenDeposit>;
#else
using E = Engine<TokenDeposit, Immediate>;
#endif

std::int64_t use(E::Config config) {
  auto made = E::make(std::move(config));
  E& engine = *made;
  (void)engine.submit(RequestSpec{});
  while (engine.step() == Stepped::ran) engine.idle_until(engine.now());
  return engine.status().ok() ? engine.alive() : 0;
}

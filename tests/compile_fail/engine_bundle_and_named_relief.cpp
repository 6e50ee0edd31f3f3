// SPDX-License-Identifier: Apache-2.0
// A bundle's roles count as if they were named: PauseResume brings a Relief.
// sentences: 1
// says: two Relief policies in one engine: keep one of them .does a bundle such as PauseResume bring one
#include "sluice/engine/engine.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/relief/refuse.hpp"

using namespace sluice;
#ifdef GOOD
using E = With<Engine<PauseResume>, Refuse>; // instead of the bundle's
#else
using E = Engine<PauseResume, Refuse>;
#endif

template <class Any>
std::int64_t steps_of(Any& engine) {
  while (engine.step() == Stepped::ran) {
  }
  return engine.steps();
}
std::int64_t use(E& engine) { return steps_of(engine) + engine.steps(); }

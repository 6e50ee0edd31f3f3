// SPDX-License-Identifier: Apache-2.0
// An observer that hears nothing is refused together with the engine, in one message: no engine would ever call it.
// sentences: 1
// says: this Observer needs .using hears = Events<events::Ended>;., a list of the events that it hears
#include "sluice/engine/engine.hpp"

struct Deaf {
  using role = sluice::roles::Observer;
  static constexpr bool wants_timeline = false;
  struct State {
    long ended = 0;
  };
#ifdef GOOD
  using hears = sluice::Events<sluice::events::Ended>;
  void on(State& state, const sluice::events::Ended&) const { ++state.ended; }
#else
  using hears = sluice::Events<>;
  void ended(State& state, const sluice::RequestRow&, sluice::Seconds) const { ++state.ended; }
#endif
};

using E = sluice::Engine<Deaf>;

long use(const E& engine) { return engine.observed<Deaf>().ended; }

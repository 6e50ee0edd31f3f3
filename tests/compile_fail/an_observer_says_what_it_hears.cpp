// SPDX-License-Identifier: Apache-2.0
// An observer lists its events: a misspelt hook, an unlisted hook and a listed type that is no event are error
// messages.
// sentences: 4
// says: this Observer needs .using hears = Events<events::Ended>;., a list of the events that it hears
// says: this Observer names a type in .hears. that is no event
// says: this Observer names an event in .hears. and has no .void on\(State&, const TheEvent&\) const. for it
// says: this Observer has an .on. for an event that its .hears. does not name
#include "sluice/report/observer/observer.hpp"

using namespace sluice;

struct Counts {
  using role = roles::Observer;
  static constexpr bool wants_timeline = false;
  struct State {
    long ended = 0, delivered = 0;
  };
};

struct Unlisted : Counts {
#ifdef GOOD
  using hears = Events<events::Ended>;
#endif
  void on(State& state, const events::Ended&) const { ++state.ended; }
};
static_assert(explain<Unlisted>());

struct NoEvent : Counts {
#ifdef GOOD
  using hears = Events<events::Ended>;
  void on(State& state, const events::Ended&) const { ++state.ended; }
#else
  using hears = Events<RequestRow>;
  void on(State& state, const RequestRow&) const { ++state.ended; }
#endif
};
static_assert(explain<NoEvent>());

struct Misspelt : Counts {
  using hears = Events<events::Ended, events::Delivered>;
  void on(State& state, const events::Ended&) const { ++state.ended; }
#ifdef GOOD
  void on(State& state, const events::Delivered&) const { ++state.delivered; }
#else
  void no(State& state, const events::Delivered&) const { ++state.delivered; }
#endif
};
static_assert(explain<Misspelt>());

struct NotListed : Counts {
#ifdef GOOD
  using hears = Events<events::Ended, events::Delivered>;
#else
  using hears = Events<events::Ended>;
#endif
  void on(State& state, const events::Ended&) const { ++state.ended; }
  void on(State& state, const events::Delivered&) const { ++state.delivered; }
};
static_assert(explain<NotListed>());

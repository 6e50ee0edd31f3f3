// SPDX-License-Identifier: Apache-2.0
// A type that says no role: most often the parameter of a policy, or its State, written where the policy belongs.
// sentences: 1
// says: this type is not a policy: a policy says .using role = roles::
#include "sluice/engine/engine.hpp"

struct Speed {
#ifdef GOOD
  using parts = sluice::Parts<sluice::Immediate>;
#endif
  int tokens_per_s = 20;
};

using E = sluice::Engine<Speed>;

struct Server {
  E engine;
  E::Config config;
  sluice::Stepped turn() { return engine.step(); }
};

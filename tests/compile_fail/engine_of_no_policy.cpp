// SPDX-License-Identifier: Apache-2.0
// A type without a role: usually a policy's parameter, or its State, written instead of the policy.
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

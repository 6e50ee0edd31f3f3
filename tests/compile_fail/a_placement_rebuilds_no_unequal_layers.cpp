// SPDX-License-Identifier: Apache-2.0
// A Placement that rebuilds layers counts them with one size, whatever it says.
// sentences: 1
// says: this Placement policy rebuilds layers .`rebuilds` or `keeps_states`. and says unequal_layers = true
#include "sluice/engine/engine.hpp"
#include "sluice/policy/placement/all_resident.hpp"

struct Rebuilding : sluice::AllResident {
#ifndef GOOD
  static constexpr bool rebuilds = true;
#endif
};

using E = sluice::Engine<Rebuilding>;

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }

// SPDX-License-Identifier: Apache-2.0
// Each policy is right, but they conflict: distances need a layout that holds single layers.
// sentences: 1
// says: this Placement places layers one by one, but the Layout holds all
#include "sluice/engine/engine.hpp"
#include "sluice/policy/layout/all_layers.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"

using namespace sluice;
#ifdef GOOD
using E = Engine<OffloadAll, AllLayers>;
#else
using E = Engine<FixedDistance<4>, AllLayers>;
#endif

bool use(E engine) {
  E* const it = &engine;
  it->step();
  return engine.step() == Stepped::ran && engine.ledger().device().used() <= engine.ledger().device().capacity();
}

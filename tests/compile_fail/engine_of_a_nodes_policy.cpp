// SPDX-License-Identifier: Apache-2.0
// An engine must not silently ignore a node's policy.
// sentences: 1
// says: an engine has no role like this policy's
#include "sluice/engine/engine.hpp"
#include "sluice/engine/node/sharing.hpp"

#ifdef GOOD
using E = sluice::Engine<sluice::Drop>;
#else
using E = sluice::Engine<sluice::Drop, sluice::TakeTurns>;
#endif

std::int64_t steps_of(const E& engine) { return engine.steps(); }

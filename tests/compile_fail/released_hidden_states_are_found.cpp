// SPDX-License-Identifier: Apache-2.0
// A Placement that keeps hidden states on the device releases blocks without K and V, which no other request can use.
// sentences: 1
// says: this Placement keeps hidden states on the device .keeps_states = true.: use it with EveryStep
#include "sluice/engine/systems/apt_serve.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

#ifdef GOOD
using E = sluice::With<sluice::AptServe, sluice::MoveToHost>;
#else
using E = sluice::With<sluice::AptServe, sluice::KeepUntilOverwritten>;
#endif

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }

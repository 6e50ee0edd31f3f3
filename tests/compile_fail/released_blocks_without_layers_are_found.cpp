// SPDX-License-Identifier: Apache-2.0
// A Placement that has layers on the host leaves blocks on the device that lack them, which no other request can use.
// sentences: 1
// says: which must have KV of all layers on the device: use a Placement with places_layers = false
#include "sluice/engine/systems/pie.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

#ifdef GOOD
using E = sluice::With<sluice::Pie, sluice::MoveToHost>;
#else
using E = sluice::With<sluice::Pie, sluice::KeepUntilOverwritten>;
#endif

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }

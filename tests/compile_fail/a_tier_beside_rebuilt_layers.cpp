// SPDX-License-Identifier: Apache-2.0
// A Placement that rebuilds layers has KV nowhere, and a tier's blocks have all layers.
// sentences: 1
// says: this Placement rebuilds layers .rebuilds = true., of which a tier would have no copy
#include "sluice/engine/caching.hpp"
#include "sluice/engine/systems/kvpr.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/policy/placement/all_resident.hpp"

#ifdef GOOD
using E = sluice::With<sluice::Kvpr, sluice::AllResident, sluice::WriteThrough>;
#else
using E = sluice::With<sluice::Kvpr, sluice::WriteThrough>;
#endif

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }

// SPDX-License-Identifier: Apache-2.0
// A real device is told which blocks are overwritten when they are: there is no time to write them to the host.
// sentences: 1
// says: this Retention policy .KeepUntilOverwritten. finds released blocks, which a real-time backend
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/world/cpu/cpu.hpp"

#ifdef GOOD
using System = sluice::HiCache;
#else
using System = sluice::HiCacheBack;
#endif

using OnMachine = sluice::With<System, sluice::Cpu>;
bool runs(const OnMachine& engine);
bool runs(const OnMachine& engine) { return engine.alive() > 0; }

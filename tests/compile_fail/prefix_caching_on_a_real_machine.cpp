// SPDX-License-Identifier: Apache-2.0
// A machine that drops KV cannot find it again, though a ledger may say so: decoding would continue at the wrong
// position.
// sentences: 1
// says: a real-time backend keeps no released blocks
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/world/cpu/cpu.hpp"

#ifdef GOOD
using System = sluice::VllmSwap;
#else
using System = sluice::VllmPrefixCaching;
#endif

using OnMachine = sluice::With<System, sluice::Cpu>;
bool runs(const OnMachine& engine);
bool runs(const OnMachine& engine) { return engine.alive() > 0; }

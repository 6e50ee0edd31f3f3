// SPDX-License-Identifier: Apache-2.0
// A real device reads which blocks requests share when an iteration begins: a decision made before would find others.
// sentences: 1
// says: this Retention policy .KeepUntilOverwritten. finds released blocks, which a real-time backend
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/world/cpu/cpu.hpp"

#ifdef GOOD
using System = sluice::VllmPrefixCaching;
#else
using System = sluice::With<sluice::VllmPrefixCaching, sluice::OneStepAhead>;
#endif

using OnMachine = sluice::With<System, sluice::Cpu>;
bool runs(const OnMachine& engine);
bool runs(const OnMachine& engine) { return engine.alive() > 0; }

// SPDX-License-Identifier: Apache-2.0
// A real machine loads in a request's first iteration, layer by layer; this policy would have it compute the beginning
// of a prefix while the end is loaded.
// sentences: 1
// says: this Caching policy .MeetInTheMiddle. loads beside the computation
#include "sluice/engine/caching.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/caching/if_faster.hpp"
#include "sluice/policy/caching/meet_in_the_middle.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/world/cpu/cpu.hpp"

#ifdef GOOD
using Policy = sluice::IfFaster<sluice::WriteThrough>;
#else
using Policy = sluice::MeetInTheMiddle<sluice::WriteThrough>;
#endif
using E = sluice::With<sluice::VllmSwap, sluice::Cpu, Policy>;

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }

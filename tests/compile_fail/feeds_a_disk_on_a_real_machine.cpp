// SPDX-License-Identifier: Apache-2.0
// A real machine's disk gets all that its host gets; this policy would have it get what is used a second time.
// sentences: 1
// says: this Caching policy feeds lower tiers with less than is written
#include "sluice/engine/caching.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/world/cpu/cpu.hpp"

#ifdef GOOD
using Policy = sluice::BasicWriteThrough<sluice::Writes::behind, sluice::Feed::written>;
#else
using Policy = sluice::BasicWriteThrough<sluice::Writes::behind, sluice::Feed::used_again>;
#endif
using E = sluice::With<sluice::VllmSwap, sluice::Cpu, Policy>;

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }

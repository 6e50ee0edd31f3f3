// SPDX-License-Identifier: Apache-2.0
// A Caching policy that writes what the device overwrites needs a device that keeps released blocks; Drop keeps none.
// sentences: 1
// says: this Caching policy writes what the device overwrites: it needs a Retention with finds_released = true
#include "sluice/engine/caching.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/caching/write_through.hpp"

#ifdef GOOD
using E = sluice::With<sluice::VllmPrefixCaching, sluice::BasicWriteThrough<sluice::Writes::evicted>>;
#else
using E = sluice::With<sluice::VllmRecompute, sluice::BasicWriteThrough<sluice::Writes::evicted>>;
#endif

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }

// SPDX-License-Identifier: Apache-2.0
// A Caching policy writes blocks that the device finds by their content; with Drop it finds none.
// sentences: 1
// says: this Caching policy writes what the device finds again: it needs a Retention with finds_released = true
#include "sluice/engine/caching.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/caching/write_through.hpp"

#ifdef GOOD
using E = sluice::With<sluice::VllmPrefixCaching, sluice::WriteThrough>;
#else
using E = sluice::With<sluice::VllmRecompute, sluice::WriteThrough>;
#endif

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }

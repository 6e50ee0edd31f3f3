// SPDX-License-Identifier: Apache-2.0
// With replaces policies of an engine; of policies alone, Engine makes one.
// sentences: 1
// says: the first type of With is no engine; expected one, as in With<OrbitFlow, DeadlinePool>
#include "sluice/engine/systems/vllm.hpp"

#ifdef GOOD
using E = sluice::With<sluice::VllmRecompute, sluice::MoveToHost>;
#else
using E = sluice::With<sluice::PreemptNewest, sluice::MoveToHost>;
#endif

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }

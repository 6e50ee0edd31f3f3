// SPDX-License-Identifier: Apache-2.0
// LightLLM: lets a request in if the KV of all running requests is expected to fit until each of them has ended.
#pragma once

#include "sluice/admission/future_memory.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/systems/vllm.hpp"

namespace sluice {

/// LightLLM ("Past-Future Scheduler for LLM Serving under SLA Guarantees", ASPLOS 2025; SuperInfer, section 5.1): first
/// come, first served, under the expected peak of memory; lengths are expected from those of past requests. A wrong
/// expectation costs a preemption, and the preempted request is computed again.
using FutureMemory = With<VllmRecompute, FitsFutureMemory>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<FutureMemory::composition>;
#endif

} // namespace sluice

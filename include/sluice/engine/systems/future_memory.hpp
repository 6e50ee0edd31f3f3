// SPDX-License-Identifier: Apache-2.0
// LightLLM: admits a request if the KV of all running requests is expected to fit until each of them has ended.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/future_memory.hpp"

namespace sluice {

/// LightLLM ("Past-Future Scheduler for LLM Serving under SLA Guarantees", ASPLOS 2025; SuperInfer, section 5.1): first
/// come, first served, limited by the expected peak of memory; lengths are predicted from past requests. A wrong
/// prediction costs a preemption, and the preempted request is recomputed.
using FutureMemory = With<VllmRecompute, FitsFutureMemory>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<FutureMemory::composition>;
#endif

} // namespace sluice

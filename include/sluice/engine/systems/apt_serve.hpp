// SPDX-License-Identifier: Apache-2.0
// Apt-Serve: K and V and hidden states in one cache on the device, both given out by pending time.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/most_pending_first.hpp"
#include "sluice/policy/placement/hybrid_cache.hpp"
#include "sluice/policy/relief/preempt_newest.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/drop.hpp"

namespace sluice {

/// Apt-Serve (Gao et al., "Apt-Serve: Adaptive Request Scheduling on Hybrid Cache for Scalable LLM Inference Serving",
/// arXiv 2504.07494), on vLLM 0.5:
///
///   abstract   K and V or hidden states of a request, on the device    HybridCache
///   appendix   memory by pending time, greedily                         MostPendingFirst, with HybridChoice
///   its code   prompts or decodes in an iteration; late requests last   MostPendingFirst
///              a schedule for each iteration                            EveryStep
///              requests without memory are computed again               Drop
using AptServe = Engine<MostPendingFirst, HybridCache, EveryStep, PreemptNewest, Drop>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<AptServe::composition>;
#endif

} // namespace sluice

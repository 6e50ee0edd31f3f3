// SPDX-License-Identifier: Apache-2.0
// Servers with all KV on the device and another admission than vLLM's: by length, by future memory, one at a time.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/admission/future_memory.hpp"
#include "sluice/policy/admission/narrowed.hpp"
#include "sluice/policy/admission/shortest_first.hpp"
#include "sluice/policy/placement/all_resident.hpp"

namespace sluice {

// Servers that admit the shortest request first, by its known or predicted length.

/// SJF-Oracle (SuperInfer, appendix A): vLLM, but waiting requests are admitted in order of their output length, which
/// the policy knows. It does not interrupt running requests, and preempted requests return before new ones join.
using SjfOracle = With<VllmRecompute, ShortestKnownFirst>;

/// LTR ("Efficient LLM Scheduling by Learning to Rank", NeurIPS 2024; SuperInfer, section 5.1): like SjfOracle,
/// but in order of predicted length. Only the order of the predictions matters, so the predictor is modelled by its
/// rank correlation with the true lengths, `RankedLength::kendall_tau`. LTR reports this number for its predictor.
///
/// Left out: LTR's guard against starvation, which promotes requests that have waited long.
using LengthRanked = With<VllmRecompute, ShortestRankedFirst>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<SjfOracle::composition>;
extern template class BasicEngine<LengthRanked::composition>;
#endif

// LightLLM: admits a request if the KV of all running requests is expected to fit until each of them has ended.

/// LightLLM ("Past-Future Scheduler for LLM Serving under SLA Guarantees", ASPLOS 2025; SuperInfer, section 5.1): first
/// come, first served, limited by the expected peak of memory; lengths are predicted from past requests. A wrong
/// prediction costs a preemption, and the preempted request is recomputed.
using FutureMemory = With<VllmRecompute, FitsFutureMemory>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<FutureMemory::composition>;
#endif

// OneAtATime: the control row of every comparison.

/// One request at a time, all resident. A running request never gets a token late, and all others wait: a metric on
/// which this server does well does not measure what users see.
using OneAtATime = Engine<Narrowed<FcfsPrefillFirst, 1>, AllResident>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<OneAtATime::composition>;
#endif

} // namespace sluice

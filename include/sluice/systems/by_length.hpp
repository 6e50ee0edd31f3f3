// SPDX-License-Identifier: Apache-2.0
// Servers that let the shortest request in first, by its known or its predicted length.
#pragma once

#include "sluice/admission/shortest_first.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/systems/vllm.hpp"

namespace sluice {

/// SJF-Oracle (SuperInfer, appendix A): vLLM, which lets waiting requests in by the length of their output and knows
/// that length. It does not interrupt running requests, and preempted requests return before any new one is let in.
using SjfOracle = With<VllmRecompute, ShortestKnownFirst>;

/// LTR ("Efficient LLM Scheduling by Learning to Rank", NeurIPS 2024; SuperInfer, section 5.1): the same by predicted
/// length. A predictor matters only through the order that it gives, so here it is a rank correlation with the true
/// lengths: `RankedLength::kendall_tau`, which LTR reports of its own predictor.
///
/// Left out: LTR's guard against starvation, which lifts requests that have waited long.
using LengthRanked = With<VllmRecompute, ShortestRankedFirst>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<SjfOracle::composition>;
extern template class BasicEngine<LengthRanked::composition>;
#endif

} // namespace sluice

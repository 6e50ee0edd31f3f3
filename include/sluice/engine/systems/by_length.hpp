// SPDX-License-Identifier: Apache-2.0
// Servers that admit the shortest request first, by its known or predicted length.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/shortest_first.hpp"

namespace sluice {

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

} // namespace sluice

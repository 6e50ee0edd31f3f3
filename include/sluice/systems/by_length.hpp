// SPDX-License-Identifier: Apache-2.0
// Servers that let the shortest request in first, by its known or its predicted length.
#pragma once

#include "sluice/admission/shortest_first.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/systems/vllm.hpp"

namespace sluice {

/// SJF-Oracle (SuperInfer, appendix A): vLLM, with those who wait let in by the length of their output, which it
/// knows. Running requests are not interrupted, and who was preempted returns before anybody new is let in.
using SjfOracle = With<VllmRecompute, ShortestKnownFirst>;

/// LTR ("Efficient LLM Scheduling by Learning to Rank", NeurIPS 2024; SuperInfer, section 5.1): the same by predicted
/// length. A predictor matters through the order that it gives, so it is a rank correlation with the true lengths:
/// `RankedLength::kendall_tau`, as LTR reports it of its own.
///
/// Left out: LTR's guard against starvation, which lifts requests that have waited long.
using LengthRanked = With<VllmRecompute, ShortestRankedFirst>;

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// SCORPIO: requests with SLOs of their own, by deadlines and credits.
#pragma once

#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/least_deadline_first.hpp"

namespace sluice {

/// SCORPIO (Tang et al., "Serving the Right Requests at the Right Time for Heterogeneous SLOs in LLM Inference", arXiv
/// 2505.23022), on vLLM:
///
///   section 3.3   TTFT guard: least deadline first; rejects unattainable requests   LeastDeadlineFirst: `rejects`
///   section 3.4   TPOT guard: virtual batch size, credits                           LeastDeadlineFirst: `guard`
///
/// Read differently: times are the planner's cost model instead of the paper's fitted ones, and no output length is
/// predicted.
using Scorpio = With<VllmRecompute, LeastDeadlineFirst>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<Scorpio::composition>;
#endif

} // namespace sluice

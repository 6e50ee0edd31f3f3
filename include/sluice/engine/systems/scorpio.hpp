// SPDX-License-Identifier: Apache-2.0
// SCORPIO: requests with SLOs of their own, by deadlines and credits.
#pragma once

#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/least_deadline_first.hpp"

namespace sluice {

/// SCORPIO (Tang et al., "Serving the Right Requests at the Right Time for Heterogeneous SLOs in LLM Inference", arXiv
/// 2505.23022), on vLLM:
///
///   section 4.1   TTFT guard: least deadline first; unattainable requests    LeastDeadlineFirst
///   section 4.2   TPOT guard: virtual batch size, credits                    LeastDeadlineFirst: `guard`
///
/// Read differently: an unattainable request is not rejected but goes last, since no role refuses a request that has
/// been accepted. Times are the planner's cost model instead of the paper's learned predictor, and no output length is
/// predicted.
using Scorpio = With<VllmRecompute, LeastDeadlineFirst>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<Scorpio::composition>;
#endif

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// OrbitFlow, and OrbitFlow without each of its parts.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/cost/calibrated.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/delivery/token_deposit.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/policy/placement/uniform_distance.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/replan/decode_window.hpp"
#include "sluice/policy/transfer/fair_share.hpp"

namespace sluice {

/// OrbitFlow (VLDB 2026): per-request distances by an exact solver, replanned in windows, under an SLO.
///
///   section 3.3    a distance per request, least step time           DistancePlacement
///   section 3.3.1  link shared by the requests, one buffer each      FairShare
///   section 3.3.1  decode window; 3.4: batch change, mismatch        DecodeWindow
///   section 3.3.2  the solver runs one step ahead                    OneStepAhead
///   section 3.4    pause the largest, drop layers on demand          PauseResume
///   section 3.4    the profile follows what is measured              Calibrated
///   section 3.2    one token per SLO while the deposit lasts         TokenDeposit
///   section 4      on vLLM 0.6.6: FCFS, prefill first                BasicFcfs<prefill_first, required>
///
/// Read differently: newcomers are required claims, so that the victim can be an older request (3.4: "a new or
/// previously paused request"); memory counts all blocks that FairShare holds in flight, not eq. 1's worst layer; the
/// solver sees deposits and pauses, which the released code leaves out.
using OrbitFlow = Engine<BasicFcfs<Batching::prefill_first, Newcomers::required>, DistancePlacement, FairShare,
                         DecodeWindow, OneStepAhead, PauseResume, TokenDeposit, Calibrated<Roofline>>;

/// OrbitFlow on Sluice's own transfer rule.
using OrbitFlowPool = With<OrbitFlow, DeadlinePool>;

/// Fig. 14a, "Batch-Uniform": one distance for all requests, no pausing, no deposit. If the batch does not fit, the
/// newest request is preempted, as in vLLM; the SLO preempts no request.
using OrbitFlowUniform =
    With<OrbitFlow, FcfsPrefillFirst, BasicUniformDistance<SloBound::ignored>, PreemptNewest, Drop, Immediate>;

/// Fig. 14a, "+Request-Wise": a distance for each request.
using OrbitFlowRequestWise = With<OrbitFlowUniform, BasicDistancePlacement<DistanceSpace, SloBound::ignored>>;

/// Fig. 14a, "+Pause-Resume": all but the deposit.
using OrbitFlowPause = With<OrbitFlow, Immediate>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<OrbitFlow::composition>;
extern template class BasicEngine<OrbitFlowPool::composition>;
extern template class BasicEngine<OrbitFlowUniform::composition>;
extern template class BasicEngine<OrbitFlowRequestWise::composition>;
extern template class BasicEngine<OrbitFlowPause::composition>;
#endif

} // namespace sluice

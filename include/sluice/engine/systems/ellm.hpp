// SPDX-License-Identifier: Apache-2.0
// eLLM, and vLLM as eLLM compares with it.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/layout/layer_groups.hpp"
#include "sluice/policy/placement/token_wise.hpp"
#include "sluice/policy/relief/preempt_newest.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/drop.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

namespace sluice {

/// eLLM (EuroSys 2026):
///
///   4.2.2     first come, first served                        Fcfs
///   4.2       b requests with the oldest share r uncached,    TokenWise, with the exact optimiser, which needs no
///             at most b / T(b, r); swapped and recomputed     library; EllmSlsqp (systems/nlopt/ellm.hpp) has the
///             layers in turn                                  paper's
///             b, r and pairs in every iteration               EveryStep
///   3.2, 6.5  units of F = 4 layers                           LayerGroups<4>
///             swapping beside computing                       DeadlinePool, the default; NextLayer in 6.3's ablation
///   4.3.2     recompute and decode in one kernel              Roofline's Rebuilding::fused, the default
///             eLLM extends vLLM                               PreemptNewest, Drop
///
/// Read differently: T is the cost model's, of which equation 5's FLOPs are a part; and after a swapped layer the
/// prefix's hidden states are fetched or recomputed (`PrefixStates`), while the paper has them for free.
using Ellm = Engine<Fcfs, TokenWise, EveryStep, LayerGroups<4>>;

/// eLLM's baselines use the same optimiser at r = 0, which sizes the batch to the SLO (6.1).
using VllmRecomputeSized = Engine<Fcfs, SizedBatch, EveryStep, PreemptNewest, Drop>;
using VllmSwapSized = With<VllmRecomputeSized, MoveToHost>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<Ellm::composition>;
extern template class BasicEngine<VllmRecomputeSized::composition>;
extern template class BasicEngine<VllmSwapSized::composition>;
#endif

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// HCache: keeps hidden states of a preempted request, saved as they were computed.
#pragma once

#include "sluice/engine/systems/ellm.hpp"
#include "sluice/policy/retention/hidden_states.hpp"

namespace sluice {

/// HCache (EuroSys 2025) as eLLM built it (section 6.1): in vLLM, with the batch sized by eLLM's optimiser at r = 0.
///
///   hidden states of some layers, saved as they are          HiddenStates
///   computed; K and V of the others, when preempted
///   rebuilt and fetched beside one another, layer by layer   the evaluator, as for eLLM's rebuilt layers
using HCache = With<VllmRecomputeSized, HiddenStates>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<HCache::composition>;
#endif

} // namespace sluice

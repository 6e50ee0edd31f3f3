// SPDX-License-Identifier: Apache-2.0
// SuperInfer's two static offloading policies: which requests come first when memory is free again.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/fcfs.hpp"

namespace sluice {

/// Swapped-First (SuperInfer, section 3.1 and Fig. 1): swapped-out requests return before new ones join. That is vLLM's
/// own order, so it is `VllmSwap` under the paper's name: few late tokens, and a queue that stands still whenever
/// memory is full.
using SwappedFirst = VllmSwap;

/// Waiting-First (the same): newcomers first; swapped-out requests return once no request waits. First tokens are early
/// as long as memory lasts, at the cost of swapped-out requests: while requests arrive faster than they end, none of
/// those returns. That is the policy, not an error; it ends with the load, and no request is lost.
///
///   newcomers before the preempted               BasicFcfs<chunked, Newcomers::optional_first>
using WaitingFirst = With<VllmSwap, BasicFcfs<Batching::chunked, Newcomers::optional_first>>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<WaitingFirst::composition>;
#endif

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// The two static offloading policies that SuperInfer starts from: which requests come first when memory is free again?
#pragma once

#include "sluice/admission/fcfs.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/systems/vllm.hpp"

namespace sluice {

/// Swapped-First (SuperInfer, section 3.1 and Fig. 1): swapped-out requests come back before any new one is let in.
/// That is vLLM's own order, and so `VllmSwap` under the name that the paper gives it: few late tokens, and a queue
/// that stands whenever memory is full.
using SwappedFirst = VllmSwap;

/// Waiting-First (the same): newcomers first; swapped-out requests come back once no request waits. First tokens are
/// early as long as memory lasts, and swapped-out requests pay for them: while requests keep arriving faster than they
/// end, no swapped-out request returns. That is the policy and not an oversight; it ends with the load, and no request
/// is lost.
///
///   newcomers before the preempted               BasicFcfs<chunked, Newcomers::optional_first>
using WaitingFirst = With<VllmSwap, BasicFcfs<Batching::chunked, Newcomers::optional_first>>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<WaitingFirst::composition>;
#endif

} // namespace sluice

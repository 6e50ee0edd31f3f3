// SPDX-License-Identifier: Apache-2.0
// The two static offloading policies that SuperInfer starts from: whose turn is it when memory is free again?
#pragma once

#include "sluice/admission/fcfs.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/systems/vllm.hpp"

namespace sluice {

/// Swapped-First (SuperInfer, section 3.1 and Fig. 1): who was swapped out comes back before anybody new is let in.
/// vLLM's own order, and so `VllmSwap` under the name that the paper gives it: few late tokens, and a queue that
/// stands whenever memory is full.
using SwappedFirst = VllmSwap;

/// Waiting-First (the same): newcomers first, and who was swapped out comes back once nobody waits. First tokens are
/// early as long as memory lasts, and who was swapped out pays for them: while requests keep arriving faster than they
/// end, nobody returns. That is the policy and not an oversight; it ends with the load, and nobody is lost.
///
///   newcomers before the preempted               BasicFcfs<chunked, Newcomers::optional_first>
using WaitingFirst = With<VllmSwap, BasicFcfs<Batching::chunked, Newcomers::optional_first>>;

} // namespace sluice

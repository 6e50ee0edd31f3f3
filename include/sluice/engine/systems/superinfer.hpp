// SPDX-License-Identifier: Apache-2.0
// SuperInfer: requests take turns on a superchip's device, those furthest behind their SLO first.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/delivery/token_deposit.hpp"
#include "sluice/policy/layout/all_layers.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/retention/eager_copy.hpp"

namespace sluice {

/// SuperInfer (arXiv 2601.20309): RotaSched and DuplexKV, on a device whose link has a lane each way (`gh200_144()`).
///
///   section 4   largest virtual lag first; a budget of      LargestVirtualLagFirst: `rotation`, 2,400 blocks
///               blocks that may change hands a step         (`configure` scales it to the machine); alpha 3, beta_F
///                                                           0.5, beta_B 0, S_TTFT 5 s, S_TBT 0.1 s
///   section 4   full blocks are copied out ahead, a clean   EagerCopy
///               block is free at once, only the tail moves
///   Fig. 11     block-first layout: large segments          AllLayers
///   Fig. 13     both ways at once                           Device::lanes, mix_loss
///   Fig. 15     decisions one step ahead, beside execution  OneStepAhead
///
/// Read differently: a request that is rotated in is fetched layer by layer during its first iteration, not as a whole
/// in the iteration before; every block is a separate copy, not one launch for all blocks of a direction (195 GB/s
/// instead of 254 with Llama-3-8B's blocks). beta_F is from notes on the paper, not from its sweep.
using SuperInfer = Engine<LargestVirtualLagFirst, EagerCopy, OneStepAhead, AllLayers>;

/// SuperInfer with a deposit, and lag by the user's clock: a pause counts once the deposit is empty. No paper has it;
/// docs/systems.md says what it gains and where.
using SuperInferUserLag = With<SuperInfer, LargestUserLagFirst, TokenDeposit>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<SuperInfer::composition>;
#endif

// SuperInfer's two static offloading policies: which requests come first when memory is free again.

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

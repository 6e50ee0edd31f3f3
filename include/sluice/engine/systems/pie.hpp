// SPDX-License-Identifier: Apache-2.0
// Pie: swaps KV that does not fit out and in again in every step, layer by layer.
#pragma once

#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/placement/swapped_layers.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"

namespace sluice {

/// Pie (arXiv 2411.09317) as MIRAGE describes and measures it (MIRAGE, sections 1, 3.2 and 7.4): in vLLM, on the link
/// of a GH200.
///
///   1    KV of future layers is on the host, and back when required   SwappedLayers
///   1    and cannot be overwritten until it has been swapped out      room in flight for KV on its way out
///   3.2  both ways in every step, since every token updates KV        Holding::written_back
///   3.2  427 GB/s one way, 366 GB/s in all when mixed 1:1             Device::mix_loss
///   1    in order, ahead as room allows                               DeadlinePool
///   7.4  KV that fits nowhere is computed again, as in vLLM           PreemptNewest, Drop
///
/// The text leaves three things open. Which layers are out: here the fewest possible, nearly evenly spaced, the same
/// for all requests. (A layer that replaces the one just computed moves as much per step.) How far the host is used:
/// here as long as transfers are hidden (Pie's own claim of transparent swapping that expands adaptively), decided by
/// the planner's evaluator instead of trial and error. What the synchronisation of every swap costs besides its bytes:
/// here nothing.
using Pie = With<VllmRecompute, SwappedLayers, DeadlinePool>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<Pie::composition>;
#endif

} // namespace sluice

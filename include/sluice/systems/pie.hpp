// SPDX-License-Identifier: Apache-2.0
// Pie: KV that does not fit is swapped out and in again in every step, layer by layer.
#pragma once

#include "sluice/placement/swapped_layers.hpp"
#include "sluice/systems/vllm.hpp"
#include "sluice/transfer/deadline_pool.hpp"

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
/// The text leaves open which layers are out: the fewest that must be, nearly evenly spaced, the same of all requests.
/// A layer that takes the place of the one just computed, whichever that is, moves as much in a step. The text leaves
/// open how far the host is used: here as long as the transfers are hidden (Pie's own claim, of transparent swapping
/// that expands adaptively), by the planner's evaluator and not by trial and error. The text leaves open what the
/// synchronisation of every swap costs beside its bytes: here nothing.
using Pie = With<VllmRecompute, SwappedLayers, DeadlinePool>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<Pie::composition>;
#endif

} // namespace sluice

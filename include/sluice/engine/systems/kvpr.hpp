// SPDX-License-Identifier: Apache-2.0
// KVPR: all KV on the host, a part of it rebuilt from activations while the rest is fetched.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/placement/partial_recomputation.hpp"
#include "sluice/policy/replan/every_step.hpp"

namespace sluice {

/// KVPR (Jiang et al., "KVPR: Efficient LLM Inference with I/O-Aware KV Cache Partial Recomputation", arXiv
/// 2411.17089):
///
///   the split of K and V into rebuilt and fetched parts   PartialRecomputation: layers instead of tokens
///   the head grows with the context                       EveryStep
///   the next layer is fetched while this one computes     DeadlinePool, the default
///
/// Read differently: the paper's profiler measures the times of both parts; here they are the planner's cost model. The
/// paper's host has KV and activations of all tokens, and the split follows the context; here a layer has one of them,
/// and a request keeps the split with which it joined. Weights stay on the device, as in the paper's schedule for
/// latency.
using Kvpr = Engine<FcfsPrefillFirst, PartialRecomputation, EveryStep>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<Kvpr::composition>;
#endif

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// NEO: the host's processor attends some of the decodes, over KV in its own memory.
#pragma once

#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/load_aware.hpp"
#include "sluice/policy/placement/host_attention.hpp"
#include "sluice/policy/relief/preempt_where_short.hpp"
#include "sluice/policy/replan/every_step.hpp"

namespace sluice {

/// NEO (Jiang et al., "NEO: Saving GPU Memory Crisis with CPU Offloading for Online LLM Inference", MLSys 2025, arXiv
/// 2411.01142), on vLLM with swapping:
///
///   KV of some requests is on the host and attended there       HostAttention
///   two sub-batches, asymmetric pipelining                       SubBatches (policy/cost/sub_batches.hpp)
///   load-aware scheduling in each iteration                      LoadAware, EveryStep
///   both memories full                                           PreemptWhereShort, MoveToHost
///
/// It needs a device that states `host_attention_rate`. Without one it schedules as vLLM with swapping does, except
/// that a request larger than the device is fetched layer by layer from the host. It runs for real on the CPU backend,
/// without the sub-batches: the host attends while the device attends, and a layer waits for both
/// (`Device::host_attention_batches` = 1).
using Neo = With<VllmSwap, LoadAware, HostAttention, EveryStep, PreemptWhereShort>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<Neo::composition>;
#endif

} // namespace sluice

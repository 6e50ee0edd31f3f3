// SPDX-License-Identifier: Apache-2.0
// Systems that keep KV on the device and stream weights: DeepSpeed, FlexGen, Select-N, MIRAGE; as single engines.
#pragma once

#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/weights/interval_offload.hpp"
#include "sluice/policy/weights/parameter_remap.hpp"
#include "sluice/policy/weights/slo_interval.hpp"
#include "sluice/policy/weights/streamed_share.hpp"

namespace sluice {

/// DeepSpeed-Inference as Select-N compares with it (3.2): every layer's weights stream while the layer before it
/// computes. All the weights' memory except two slots is KV.
using DeepSpeedWeights = With<VllmRecompute, IntervalOffload, FairShare>;

/// FlexGen on weights, as Select-N compares with it (3.2): the same share of every layer streams, as large as the SLO
/// allows at peak rates.
using FlexGenWeights = With<VllmRecompute, StreamedShare, FairShare>;

/// Select-N (4) without neighbours on its bus: the smallest interval that meets the batch's tightest SLO, looked up in
/// a performance record (`sluice-profile --record`), or else in the record that the planner's cost model makes. A
/// request whose SLO cannot be met is refused at submission. This engine serves prompts and decodes with the interval
/// of its decodes; the paper's two instances are two engines, one with `weights.phase = InferencePhase::prefill`.
using SelectN = With<VllmRecompute, RecordedSloInterval, FairShare>;

/// MIRAGE (5) with one tenant: when KV runs out, memory of the active model's own weights becomes KV, as long as
/// computation hides the weights' transfers, before any request is preempted.
using Mirage = With<VllmRecompute, ParameterRemap, FairShare>;

/// MIRAGE's ablation A (7.5): alpha + 1 layers share one slot, even if two slots would hide what one does not.
using MirageOneSlot = With<Mirage, BasicParameterRemap<RemapSlots::one>>;

/// MIRAGE without dynamic reversion (7.6.1): lent memory stays KV.
using MirageNoReversion = With<Mirage, BasicParameterRemap<RemapSlots::by_equations, false>>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<DeepSpeedWeights::composition>;
extern template class BasicEngine<FlexGenWeights::composition>;
extern template class BasicEngine<SelectN::composition>;
extern template class BasicEngine<Mirage::composition>;
extern template class BasicEngine<MirageOneSlot::composition>;
extern template class BasicEngine<MirageNoReversion::composition>;
#endif

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Systems that keep KV on the device and stream weights: DeepSpeed's, FlexGen's, Select-N, MIRAGE; one engine alone.
#pragma once

#include "sluice/systems/vllm.hpp"
#include "sluice/transfer/fair_share.hpp"
#include "sluice/weights/interval_offload.hpp"
#include "sluice/weights/parameter_remap.hpp"
#include "sluice/weights/slo_interval.hpp"
#include "sluice/weights/streamed_share.hpp"

namespace sluice {

/// DeepSpeed-Inference as Select-N measures against it (3.2): every layer's weights stream, each while the layer before
/// it computes. All memory of the weights but two slots is KV.
using DeepSpeedWeights = With<VllmRecompute, IntervalOffload, FairShare>;

/// FlexGen on weights, as Select-N measures against it (3.2): a part of every layer, as large as peak rates say that
/// the SLO has time for.
using FlexGenWeights = With<VllmRecompute, StreamedShare, FairShare>;

/// Select-N (4) without neighbours on its bus: the smallest interval that meets the tightest SLO of the batch, looked
/// up in a performance record (`sluice-profile --record`), or without one in what the planner's cost model would have
/// recorded. An SLO that cannot be met is refused at submission. This engine serves prompts and decodes by the interval
/// of its decodes; the paper's two instances are two engines, one with `weights.phase = InferencePhase::prefill`.
using SelectN = With<VllmRecompute, RecordedSloInterval, FairShare>;

/// MIRAGE (5) with one tenant: memory of the active model's own weights becomes KV when KV runs out, as long as the
/// computation hides the weights' transfers, and before any request is preempted.
using Mirage = With<VllmRecompute, ParameterRemap, FairShare>;

/// MIRAGE's ablation A (7.5): alpha + 1 layers share one slot, also where two slots would hide what one does not.
using MirageOneSlot = With<Mirage, BasicParameterRemap<RemapSlots::one>>;

/// MIRAGE without dynamic reversion (7.6.1): memory that was lent once stays KV.
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

// SPDX-License-Identifier: Apache-2.0
// FlexGen and FlexGen+, as OrbitFlow compares with them: on KV.
#pragma once

#include "sluice/admission/fcfs.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/placement/fewest_layers.hpp"
#include "sluice/replan/on_batch_change.hpp"
#include "sluice/replan/once.hpp"
#include "sluice/transfer/fair_share.hpp"

namespace sluice {

/// FlexGen (ICML 2023; OrbitFlow, section 5.1, baseline 2): one placement for good, the fewest layers with which the
/// worst batch fits.
///
///   sized for the worst batch of the trace    BasicFewestLayers<ever_worst>; set `worst_batch` (OrbitFlow's
///                                             `peak_batch_blocks`), or batch limit x longest context is taken
///   never changed                             Once
using FlexGen = Engine<FcfsPrefillFirst, BasicFewestLayers<Horizon::ever_worst>, Once, FairShare>;

/// FlexGen+ (baseline 3): the same for the worst lengths of the requests in the batch, at every change of the batch. An
/// oracle: FlexGen+ knows how long its requests will be.
using FlexGenPlus = Engine<FcfsPrefillFirst, BasicFewestLayers<Horizon::batch_worst>, OnBatchChange, FairShare>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<FlexGen::composition>;
extern template class BasicEngine<FlexGenPlus::composition>;
#endif

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// FlexGen and FlexGen+ applied to KV, as OrbitFlow compares with them.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/placement/fewest_layers.hpp"
#include "sluice/policy/replan/on_batch_change.hpp"
#include "sluice/policy/replan/once.hpp"
#include "sluice/policy/transfer/fair_share.hpp"

namespace sluice {

/// FlexGen (ICML 2023; OrbitFlow, section 5.1, baseline 2): one placement for the whole run, the fewest layers with
/// which the worst batch fits.
///
///   sized for the worst batch of the trace    BasicFewestLayers<ever_worst>; set `worst_batch` (OrbitFlow's
///                                             `peak_batch_blocks`), or batch limit x longest context is taken
///   never changed                             Once
using FlexGen = Engine<FcfsPrefillFirst, BasicFewestLayers<Horizon::ever_worst>, Once, FairShare>;

/// FlexGen+ (baseline 3): the same for the final lengths of the batch's requests, at every change of the batch. An
/// oracle: it knows how long requests will be.
using FlexGenPlus = Engine<FcfsPrefillFirst, BasicFewestLayers<Horizon::batch_worst>, OnBatchChange, FairShare>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<FlexGen::composition>;
extern template class BasicEngine<FlexGenPlus::composition>;
#endif

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// OrbitFlow's baselines: FlexGen, DeepSpeed-Inference, SLO-aware offloading and the dynamic heuristic.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/placement/fewest_layers.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"
#include "sluice/policy/placement/slo_uniform.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/replan/on_batch_change.hpp"
#include "sluice/policy/replan/once.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

namespace sluice {

// FlexGen and FlexGen+ applied to KV, as OrbitFlow compares with them.

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

// DeepSpeed-Inference applied to KV, as OrbitFlow compares with it.

/// DeepSpeed-Inference (SC 2022; OrbitFlow, section 5.1): every layer's KV is on the host and is fetched while the
/// layer before it computes.
///
///   every layer offloaded, for good           OffloadAll
///   fetched one layer ahead                   NextLayer
using DeepSpeedInference = Engine<FcfsPrefillFirst, OffloadAll, NextLayer>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<DeepSpeedInference::composition>;
#endif

// SLO-aware offloading, as OrbitFlow compares with it.

/// SLO-aware Offloading (OrbitFlow, section 5.1, baseline 4; after Select-N, on KV instead of weights): when the batch
/// changes, the smallest uniform distance that fits and meets the SLO by the profile, otherwise the distance with the
/// least latency.
using SloAware = Engine<FcfsPrefillFirst, SloUniform, OnBatchChange, FairShare>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<SloAware::composition>;
#endif

// The dynamic heuristic, OrbitFlow's strongest baseline.

/// Dynamic Heuristic (OrbitFlow, section 5.1, baseline 5): in every step the fewest evenly spaced layers that fit.
using DynamicHeuristic = Engine<FcfsPrefillFirst, FewestLayers, EveryStep, FairShare>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<DynamicHeuristic::composition>;
#endif

} // namespace sluice

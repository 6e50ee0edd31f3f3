// SPDX-License-Identifier: Apache-2.0
// Variants: systems with one part replaced, for papers' experiments with such variants.
#pragma once

#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/orbitflow_baselines.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"
#include "sluice/policy/admission/shortest_remaining_first.hpp"
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/policy/relief/pause.hpp"

namespace engines {

/// OrbitFlow, Fig. 13: the shortest remaining first instead of first come, first served.
using OrbitFlowSrtf =
    sluice::With<sluice::OrbitFlow,
                 sluice::BasicShortestRemainingFirst<sluice::Batching::prefill_first, sluice::Newcomers::required>>;

/// OrbitFlow, Fig. 14c: the choice of the request to pause.
using OrbitFlowPauseShortest = sluice::With<sluice::OrbitFlow, sluice::PauseShortest>;
using OrbitFlowPauseRandom = sluice::With<sluice::OrbitFlow, sluice::PauseRandom>;

/// OrbitFlow, Fig. 15: any number of evenly spaced layers, including the counts that a distance skips.
using OrbitFlowEven = sluice::With<sluice::OrbitFlow, sluice::EvenPlacement>;

/// OrbitFlow's artifact: its "FlexGen" is the method `Static1`, a fixed distance. Every second layer is our inference.
using FlexGenFixed = sluice::With<sluice::FlexGen, sluice::FixedDistance<2>>;

/// MIRAGE's vLLM 0.7.3: whole prompts, before any decode.
using VllmPrefillFirst = sluice::With<sluice::VllmRecompute, sluice::FcfsPrefillFirst>;
using MiragePrefillFirst = sluice::With<sluice::Mirage, sluice::FcfsPrefillFirst>;

} // namespace engines

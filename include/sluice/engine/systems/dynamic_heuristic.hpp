// SPDX-License-Identifier: Apache-2.0
// The dynamic heuristic, OrbitFlow's strongest baseline.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/placement/fewest_layers.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/transfer/fair_share.hpp"

namespace sluice {

/// Dynamic Heuristic (OrbitFlow, section 5.1, baseline 5): in every step the fewest evenly spaced layers that fit.
using DynamicHeuristic = Engine<FcfsPrefillFirst, FewestLayers, EveryStep, FairShare>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<DynamicHeuristic::composition>;
#endif

} // namespace sluice

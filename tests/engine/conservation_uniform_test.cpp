// SPDX-License-Identifier: Apache-2.0
// Conservation over random traces.
#include "sluice/engine/systems/orbitflow_baselines.hpp"
#include "sluice/engine/systems/pie.hpp"
#include "sluice/policy/layout/layer_groups.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/placement/uniform_distance.hpp"
#include "sluice/policy/relief/pause.hpp"

#include "engine/trials.hpp"

namespace {
using namespace sluice;
using Grouped = Engine<LayerGroups<4>, FewestLayers, EveryStep>;
using PieFresh = With<Pie, BasicSwappedLayers<SwappedOut::fresh>, FairShare>;
using PiePaused = With<Pie, PauseResume, OneStepAhead, EveryStep>;
using AheadOfTime = Engine<OneStepAhead, PauseResume, UniformDistance>;

SLUICE_CONSERVES(DeepSpeedInference)
SLUICE_CONSERVES(FlexGen)
SLUICE_CONSERVES(FlexGenPlus)
SLUICE_CONSERVES(SloAware)
SLUICE_CONSERVES(DynamicHeuristic)
SLUICE_CONSERVES(Pie)
SLUICE_CONSERVES(PieFresh)
SLUICE_CONSERVES(PiePaused)
SLUICE_CONSERVES(Grouped)
SLUICE_CONSERVES(AheadOfTime)
} // namespace

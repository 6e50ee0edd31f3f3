// SPDX-License-Identifier: Apache-2.0
// What every engine owes, over random traces.
#include "sluice/layout/layer_groups.hpp"
#include "sluice/lookahead/one_step_ahead.hpp"
#include "sluice/placement/uniform_distance.hpp"
#include "sluice/relief/pause_resume.hpp"
#include "sluice/systems/deepspeed_inference.hpp"
#include "sluice/systems/dynamic_heuristic.hpp"
#include "sluice/systems/flexgen.hpp"
#include "sluice/systems/pie.hpp"
#include "sluice/systems/slo_aware.hpp"

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

// SPDX-License-Identifier: Apache-2.0
// What every engine owes, over random traces.
#include "sluice/relief/pause.hpp"
#include "sluice/replan/every_step.hpp"
#include "sluice/retention/move_to_host.hpp"
#include "sluice/systems/orbitflow.hpp"

#include "engine/trials.hpp"

namespace {
using namespace sluice;
using Unlucky = Engine<PauseRandom, BasicMoveToHost<true>, DistancePlacement, EveryStep>;

SLUICE_CONSERVES(OrbitFlow)
SLUICE_CONSERVES(OrbitFlowPool)
SLUICE_CONSERVES(OrbitFlowUniform)
SLUICE_CONSERVES(OrbitFlowRequestWise)
SLUICE_CONSERVES(OrbitFlowPause)
SLUICE_CONSERVES(Unlucky)
} // namespace

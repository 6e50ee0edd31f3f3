// SPDX-License-Identifier: Apache-2.0
// Conservation over random traces.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

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

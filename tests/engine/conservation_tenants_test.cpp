// SPDX-License-Identifier: Apache-2.0
// Conservation over random traces on a node with three tenants, with systems that sluice-compare runs on a node.
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/engine/systems/other_admissions.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"
#include "sluice/engine/systems/vllm.hpp"

#include "engine/node_trials.hpp"

namespace {
using namespace sluice;

SLUICE_NODE_CONSERVES(OneAtATime, Uncoordinated)
SLUICE_NODE_CONSERVES(VllmRecompute, Uncoordinated)
SLUICE_NODE_CONSERVES(VllmSwap, Uncoordinated)
SLUICE_NODE_CONSERVES(DeepSpeedWeights, Uncoordinated)
SLUICE_NODE_CONSERVES(Confluence, Uncoordinated)
SLUICE_NODE_CONSERVES(FlexGenWeights, Uncoordinated)
SLUICE_NODE_CONSERVES(SelectN, BusCoordinator)
SLUICE_NODE_CONSERVES(Mirage, RemapController)
} // namespace

// SPDX-License-Identifier: Apache-2.0
// What every engine owes, over random traces: eLLM and its baselines.
#include "sluice/systems/ellm.hpp"
#include "sluice/transfer/fair_share.hpp"

#include "engine/trials.hpp"

namespace {
using namespace sluice;
using EllmFairShare = With<Ellm, FairShare, MoveToHost>;

SLUICE_CONSERVES(Ellm)
SLUICE_CONSERVES(EllmFairShare)
SLUICE_CONSERVES(VllmRecomputeSized)
SLUICE_CONSERVES(VllmSwapSized)
} // namespace

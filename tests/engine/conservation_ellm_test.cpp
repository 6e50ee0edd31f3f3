// SPDX-License-Identifier: Apache-2.0
// What every engine owes, over random traces: eLLM and its baselines.
#include "sluice/relief/pause_resume.hpp"
#include "sluice/systems/ellm.hpp"
#include "sluice/systems/hcache.hpp"
#include "sluice/transfer/fair_share.hpp"

#include "engine/trials.hpp"

namespace {
using namespace sluice;
using EllmFairShare = With<Ellm, FairShare, MoveToHost>;
using HCachePrefillFirst = Engine<FcfsPrefillFirst, PauseLargest, HiddenStates>;
using EllmHidden = With<Ellm, HiddenStates>;

SLUICE_CONSERVES(Ellm)
SLUICE_CONSERVES(EllmFairShare)
SLUICE_CONSERVES(VllmRecomputeSized)
SLUICE_CONSERVES(VllmSwapSized)
SLUICE_CONSERVES(HCache)
SLUICE_CONSERVES(HCachePrefillFirst)
SLUICE_CONSERVES(EllmHidden)
} // namespace

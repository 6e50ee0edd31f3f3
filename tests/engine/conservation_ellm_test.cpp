// SPDX-License-Identifier: Apache-2.0
// Conservation over random traces: eLLM, its baselines, and KVPR.
#include "sluice/engine/systems/ellm.hpp"
#include "sluice/engine/systems/hcache.hpp"
#include "sluice/engine/systems/kvpr.hpp"
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "engine/trials.hpp"

namespace {
using namespace sluice;
using EllmFairShare = With<Ellm, FairShare, MoveToHost>;
using HCachePrefillFirst = Engine<FcfsPrefillFirst, PauseLargest, HiddenStates>;
using EllmHidden = With<Ellm, HiddenStates>;
using DistancesHidden = Engine<DistancePlacement, HiddenStates>;

/// Saves hidden states, and keeps KV on the device until its memory is needed: no published system combines these.
struct StatesAndKv : HiddenStates {
  Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::device; }
};
using StatesUntilNeeded = Engine<FcfsPrefillFirst, PauseLargest, StatesAndKv>;

using KvprNextLayer = With<Kvpr, NextLayer>;

SLUICE_CONSERVES(Ellm)
SLUICE_CONSERVES(EllmFairShare)
SLUICE_CONSERVES(VllmRecomputeSized)
SLUICE_CONSERVES(VllmSwapSized)
SLUICE_CONSERVES(HCache)
SLUICE_CONSERVES(HCachePrefillFirst)
SLUICE_CONSERVES(EllmHidden)
SLUICE_CONSERVES(DistancesHidden)
SLUICE_CONSERVES(StatesUntilNeeded)
SLUICE_CONSERVES(Kvpr)
SLUICE_CONSERVES(KvprNextLayer)
} // namespace

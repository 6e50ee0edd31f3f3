// SPDX-License-Identifier: Apache-2.0
// Conservation over random traces.
#include "sluice/engine/systems/other_admissions.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/shortest_remaining_first.hpp"
#include "sluice/policy/layout/all_layers.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/relief/refuse.hpp"
#include "sluice/policy/replan/every_step.hpp"

#include "engine/trials.hpp"

namespace {
using namespace sluice;
using ShortestFirst = Engine<ShortestRemainingFirst, MoveToHost>;
using Refusing = Engine<AllResident, Refuse>;
using Whole = Engine<AllLayers, MoveToHost, PauseLongest>;
using SwapAhead = Engine<OneStepAhead, MoveToHost, EveryStep>;

SLUICE_CONSERVES(VllmRecompute)
SLUICE_CONSERVES(VllmSwap)
SLUICE_CONSERVES(VllmPriority)
SLUICE_CONSERVES(VllmPriorityPreempts)
SLUICE_CONSERVES(OneAtATime)
SLUICE_CONSERVES(ShortestFirst)
SLUICE_CONSERVES(Refusing)
SLUICE_CONSERVES(Whole)
SLUICE_CONSERVES(SwapAhead)
} // namespace

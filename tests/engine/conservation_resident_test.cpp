// SPDX-License-Identifier: Apache-2.0
// What every engine owes, over random traces.
#include "sluice/admission/shortest_remaining_first.hpp"
#include "sluice/layout/all_layers.hpp"
#include "sluice/lookahead/one_step_ahead.hpp"
#include "sluice/relief/pause.hpp"
#include "sluice/relief/refuse.hpp"
#include "sluice/replan/every_step.hpp"
#include "sluice/systems/one_at_a_time.hpp"
#include "sluice/systems/vllm.hpp"

#include "engine/trials.hpp"

namespace {
using namespace sluice;
using ShortestFirst = Engine<ShortestRemainingFirst, MoveToHost>;
using Refusing = Engine<AllResident, Refuse>;
using Whole = Engine<AllLayers, MoveToHost, PauseLongest>;
using SwapAhead = Engine<OneStepAhead, MoveToHost, EveryStep>;

SLUICE_CONSERVES(VllmRecompute)
SLUICE_CONSERVES(VllmSwap)
SLUICE_CONSERVES(OneAtATime)
SLUICE_CONSERVES(ShortestFirst)
SLUICE_CONSERVES(Refusing)
SLUICE_CONSERVES(Whole)
SLUICE_CONSERVES(SwapAhead)
} // namespace

// SPDX-License-Identifier: Apache-2.0
// Conservation for a model with KV in groups, of the engines that move whole requests or none; and the refusal of the
// others.
#include "sluice/engine/systems/fastserve.hpp"
#include "sluice/engine/systems/other_admissions.hpp"
#include "sluice/engine/systems/scorpio.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/placement/all_resident.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"

#include "engine/trials.hpp"

namespace {
using namespace sluice;

/// Copies of KV from the first moment, and turns for all requests in a trial of a few seconds.
struct Restless : LargestVirtualLagFirst {
  Restless() {
    first_token = Seconds{0.02};
    rotation = TokenBlocks{12};
  }
};
struct ShortQuanta : SkipJoinMlfq {
  ShortQuanta() {
    queue.quantum = Seconds{1e-3};
    queue.starvation = Seconds{0.05};
  }
};
using Impatient = With<FastServe, ShortQuanta>;
using Copying = With<SuperInfer, Restless>;
using CopyingPerLayer = Engine<Restless, EagerCopy>;
using Keeping = Engine<AllResident, KeepUntilNeeded, EveryStep>;
using SwapAhead = Engine<OneStepAhead, MoveToHost, EveryStep>;

SLUICE_CONSERVES_GROUPS(VllmRecompute)
SLUICE_CONSERVES_GROUPS(VllmSwap)
SLUICE_CONSERVES_GROUPS(SwapAhead)
SLUICE_CONSERVES_GROUPS(OneAtATime)
SLUICE_CONSERVES_GROUPS(SjfOracle)
SLUICE_CONSERVES_GROUPS(Scorpio)
SLUICE_CONSERVES_GROUPS(FastServe)
SLUICE_CONSERVES_GROUPS(Impatient)
SLUICE_CONSERVES_GROUPS(SuperInfer)
SLUICE_CONSERVES_GROUPS(Copying)
SLUICE_CONSERVES_GROUPS(CopyingPerLayer)
SLUICE_CONSERVES_GROUPS(Keeping)

} // namespace

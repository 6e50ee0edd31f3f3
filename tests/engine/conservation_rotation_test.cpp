// SPDX-License-Identifier: Apache-2.0
// Conservation for engines whose admission rotates, ranks or looks ahead, on small hosts too.
#include "sluice/engine/systems/apt_serve.hpp"
#include "sluice/engine/systems/fastserve.hpp"
#include "sluice/engine/systems/other_admissions.hpp"
#include "sluice/engine/systems/scorpio.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/admission/shortest_first.hpp"
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/eager_copy.hpp"
#include "sluice/policy/retention/hidden_states.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

#include "engine/restless.hpp"
#include "engine/trials.hpp"

namespace {

using namespace sluice;

using sluice::testing::Restless;
using sluice::testing::ShortQuanta;

using Rotating = Engine<Restless, AllResident, MoveToHost>;
using RotatingDistances = Engine<Restless, DistancePlacement, MoveToHost>;
using Copying = With<SuperInfer, Restless>;
using CopyingDistances = Engine<Restless, DistancePlacement, EagerCopy>;
using CopyingUnderPressure = Engine<EagerCopy, EveryStep>;
using RotatingHidden = Engine<Restless, HiddenStates>;

/// Clean copies of KV and saved hidden states together: a full host drops both.
struct CopiesAndStates : HiddenStates {
  static constexpr bool copies_ahead = true;
  LayerBlocks copy_ahead(const View& /*view*/, LayerBlocks idle) const { return idle; }
};
using CopyingHidden = Engine<Restless, CopiesAndStates, EveryStep>;

using Impatient = With<FastServe, ShortQuanta>;
using Ranked = Engine<ShortestRankedFirst, AllResident, MoveToHost>;
/// Rebuilding counts for nothing: as many as possible have hidden states.
struct Rebuilds : MostPendingFirst {
  Rebuilds() { delay_weight = 0; }
};
using AptServeRebuilds = With<AptServe, Rebuilds>;

SLUICE_CONSERVES(SuperInfer)
SLUICE_CONSERVES(SuperInferUserLag)
SLUICE_CONSERVES(Rotating)
SLUICE_CONSERVES(Copying)
SLUICE_CONSERVES(CopyingUnderPressure)
SLUICE_CONSERVES(RotatingHidden)
SLUICE_CONSERVES(CopyingHidden)
SLUICE_CONSERVES(Ranked)
SLUICE_CONSERVES(WaitingFirst)
SLUICE_CONSERVES(SwappedFirst)
SLUICE_CONSERVES(SjfOracle)
SLUICE_CONSERVES(LengthRanked)
SLUICE_CONSERVES(FutureMemory)
SLUICE_CONSERVES(FastServe)
SLUICE_CONSERVES(Scorpio)
SLUICE_CONSERVES(Impatient)
SLUICE_CONSERVES(AptServe)
SLUICE_CONSERVES(AptServeRebuilds)

// Rotation needs a host that holds the rotated-out requests and the offloaded layers of the rotated-in ones. On a host
// for two of three requests, a joining request drops the KV of the one that left, which drops the other's KV when it
// returns: they alternate forever.
constexpr LayerBlocks holds_all{100'000};

TEST_CASE("conservation: RotatingDistances, on a host that holds all requests") {
  sluice::testing::run_trials<RotatingDistances>("RotatingDistances", 40, holds_all);
}
TEST_CASE("conservation: CopyingDistances, on a host that holds all requests") {
  sluice::testing::run_trials<CopyingDistances>("CopyingDistances", 40, holds_all);
}

TEST_CASE("requests are cancelled in every phase, with KV on the host and with copies ahead") {
  const sluice::testing::Cancelled rotating = sluice::testing::run_cancelled<Copying>("Copying", 30, holds_all);
  const sluice::testing::Cancelled placed =
      sluice::testing::run_cancelled<RotatingDistances>("RotatingDistances", 30, holds_all);
  if (!sluice::testing::all_rounds) return;
  CHECK(rotating.waiting > 0);
  CHECK(rotating.in_prefill > 0);
  CHECK(rotating.in_decode > 0);
  CHECK(rotating.preempted > 0);
  CHECK(rotating.copied > 0);
  CHECK(placed.kept_on_host > placed.preempted); // running ones too
}

} // namespace

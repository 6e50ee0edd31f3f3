// SPDX-License-Identifier: Apache-2.0
// Recomputed tokens: a placement in eLLM's manner, which swaps or rebuilds the oldest share of every request, through
// the whole engine. A head that is not on the device costs transfers and computation, and no block is lost.
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/move_to_host.hpp"
#include "sluice/report/observer/chosen_iteration.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// For the oldest `Share` per cent of every request's tokens, `Swapped` of every three layers are on the host and the
/// others nowhere; with `Hidden`, the inputs of the first of these are on the host.
template <int Share, int Swapped, bool Hidden = false>
struct OldestShare {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  static constexpr bool fetches_nothing = Swapped == 0 && !Hidden;
  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
  };

  static Holding share_of(Tokens tokens, int layers) {
    Holding holding{.head = tokens};
    for (int layer = 0; layer < layers; ++layer) (layer % 3 < Swapped ? holding.host : holding.nowhere).insert(layer);
    for (int layer = Swapped; Hidden && layer < layers; layer += 3) holding.hidden.insert(layer);
    return holding;
  }
  /// All of its tokens: heads round down, and a single request needs the most.
  Holding least(int layers) const { return Share < 100 ? Holding{} : share_of(all_tokens, layers); }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    return join_longest_prefix(task, plan, [&](std::size_t count) {
      plan.requests.clear();
      for (const Claim& claim : task.claims.first(count)) {
        const Tokens old{task.view.row(claim.slot).computed.count() * Share / 100};
        plan.requests.push_back({claim.slot, share_of(Share < 100 ? old : all_tokens, task.layers())});
      }
      return state.trial.fits(task, plan);
    });
  }
};

using RebuildHalf = Engine<OldestShare<50, 0>, EveryStep>;
using RebuildAll = Engine<OldestShare<100, 0>, PauseResume>;
using SwapHalf = Engine<OldestShare<50, 3>, PauseResume>;
using MixHalf = Engine<OldestShare<50, 1>, MoveToHost>;
using HiddenHalf = Engine<OldestShare<50, 1, true>, PauseResume>;
using HiddenMost = Engine<OldestShare<80, 0, true>, EveryStep, MoveToHost>;
using MixMost = Engine<OldestShare<80, 2>, PauseResume, EveryStep>;

SLUICE_CONSERVES(RebuildHalf)
SLUICE_CONSERVES(RebuildAll)
SLUICE_CONSERVES(SwapHalf)
SLUICE_CONSERVES(MixHalf)
SLUICE_CONSERVES(MixMost)
SLUICE_CONSERVES(HiddenHalf)
SLUICE_CONSERVES(HiddenMost)

struct Served {
  double end = 0;
  LayerBlocks to_device{0};
};
template <class P>
Served run() {
  using E = Engine<P, EveryStep, SmallCost, BasicSimulated<SmallCost>, Audit>; // heads grow with their requests
  E engine = *E::make({.limits = {.batch = 4, .batch_tokens = Tokens{1024}},
                       .geometry = {6, Bytes{4096}, Bytes{1 << 16}, Bytes{2048}},
                       .device_blocks = LayerBlocks{6 * 200},
                       .host_blocks = LayerBlocks{100'000},
                       .cost = SmallCost{},
                       .backend = BasicSimulated<SmallCost>{SmallCost{}}});
  for (int i = 0; i < 4; ++i) REQUIRE(engine.submit({Seconds{0}, Tokens{200}, Tokens{60}, {}}).has_value());
  while (engine.step() == Stepped::ran) check_ledger(engine);
  REQUIRE(engine.alive() == 0);
  return {engine.now().count(), engine.template observed<Audit>().to_device};
}

} // namespace

TEST_CASE("rebuilt layers take time and cross no link, swapped layers cross it in every step") {
  const Served resident = run<AllResident>();
  const Served rebuilt = run<OldestShare<50, 0>>();
  const Served swapped = run<OldestShare<50, 3>>();
  const Served mixed = run<OldestShare<50, 1>>();
  CHECK(resident.to_device == LayerBlocks{0});
  CHECK(rebuilt.to_device == LayerBlocks{0});
  CHECK(mixed.to_device > LayerBlocks{0});
  CHECK(swapped.to_device > mixed.to_device);
  CHECK(rebuilt.end > resident.end);
  // Hidden states are half as large as K and V here: of every three layers one is swapped, and one of two is rebuilt
  // from fetched states.
  const Served hidden = run<OldestShare<50, 1, true>>();
  CHECK(hidden.to_device > mixed.to_device);
  CHECK(hidden.to_device < swapped.to_device);
}

namespace {

/// The timeline of the last iteration's layers.
struct LayerSpans {
  using role = roles::Observer;
  using hears = Events<events::Iterated>;
  static constexpr bool wants_timeline = true;
  struct State {
    std::vector<double> compute_s;
  };
  void on(State& state, const events::Iterated& event) const {
    state.compute_s.clear();
    std::vector<LayerSlice> layers;
    std::vector<TransferSlice> transfers;
    event.replay({layers, transfers});
    for (const LayerSlice& layer : layers) state.compute_s.push_back(layer.end_s - layer.start_s);
  }
};

} // namespace

TEST_CASE("a rebuilt layer takes longer, a fetched one only if the prefix must pass through it") {
  const auto layers_of = [](auto placement) {
    using E = Engine<decltype(placement), EveryStep, SmallCost, BasicSimulated<SmallCost>, LayerSpans>;
    E engine = *E::make({.limits = {},
                         .geometry = {6, Bytes{4096}, Bytes{1 << 16}, Bytes{0}},
                         .device_blocks = LayerBlocks{6 * 200},
                         .host_blocks = LayerBlocks{100'000},
                         .cost = SmallCost{},
                         .backend = BasicSimulated<SmallCost>{SmallCost{}}});
    REQUIRE(engine.submit({Seconds{0}, Tokens{200}, Tokens{60}, {}}).has_value());
    for (int step = 0; step < 30; ++step) engine.step();
    return engine.template observed<LayerSpans>().compute_s;
  };
  // Layers 0 and 3 are swapped, the others rebuilt. The prefix passes through 0 to 4 for the rebuilt layers above.
  const std::vector<double> through = layers_of(OldestShare<50, 1>{});
  const std::vector<double> kept = layers_of(OldestShare<50, 1, true>{});
  REQUIRE(through.size() == 6);
  REQUIRE(kept.size() == 6);
  CHECK(through[1] == doctest::Approx(through[2]));
  CHECK(through[0] > kept[0]);
  CHECK(through[1] > through[0]); // plus projections
  CHECK(through[5] < through[4]); // no layer above needs its output
  CHECK(kept[0] == doctest::Approx(kept[3]));
  CHECK(kept[1] > kept[2]); // the second layer of a run needs the first one's output, and passes nothing on itself
  CHECK(kept[2] > kept[3]);
}

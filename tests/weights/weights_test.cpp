// SPDX-License-Identifier: Apache-2.0
// Weights: the concept, and that the engine keeps its accounts while device memory is lent and taken back.
#include "sluice/lookahead/one_step_ahead.hpp"
#include "sluice/placement/distance_placement.hpp"
#include "sluice/placement/fewest_layers.hpp"
#include "sluice/relief/pause_resume.hpp"
#include "sluice/retention/move_to_host.hpp"
#include "sluice/weights/resident_weights.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Half the layers' weights stream through one slot as soon as KV wants more than there is, and return as soon as it
/// does not. No hysteresis: nothing that a server should do, and all that accounts must stand.
struct LendWhenShort {
  using role = roles::Weights;
  struct State {};

  template <class Task>
  void offer(const Task& task, State&, std::vector<WeightsLevel>& levels) const {
    if (task.demand <= task.own) return;
    LayerSet streamed;
    for (int layer = 1; layer < task.layers(); layer += 2) streamed.insert(layer);
    levels.push_back(WeightsLevel::of(task.view.geometry, streamed, 1));
    levels.back().plan.freed = most_freed(task.view.geometry);
  }
  [[nodiscard]] LayerBlocks most_freed(const Geometry& geometry) const { return LayerBlocks{7L * geometry.layers}; }
};
struct OffersNothing : LendWhenShort {
  void offer() const {}
};
struct FreesNobodyKnows {
  using role = roles::Weights;
  struct State {};
  template <class Task>
  void offer(const Task&, State&, std::vector<WeightsLevel>&) const {}
};
struct WithoutState : LendWhenShort {
  using State = void;
};

static_assert(Weights<LendWhenShort> && Weights<ResidentWeights>);
static_assert(!Weights<OffersNothing> && !Weights<WithoutState> && !Weights<FreesNobodyKnows>);

using LendRecompute = Engine<LendWhenShort>;
using LendSwap = Engine<LendWhenShort, MoveToHost>;
using LendKeep = Engine<LendWhenShort, PauseResume>;
using LendEven = Engine<LendWhenShort, FewestLayers, PauseResume>;
using LendAhead = Engine<LendWhenShort, DistancePlacement, PauseResume, OneStepAhead>;

SLUICE_CONSERVES(LendRecompute)
SLUICE_CONSERVES(LendSwap)
SLUICE_CONSERVES(LendKeep)
SLUICE_CONSERVES(LendEven)
SLUICE_CONSERVES(LendAhead)

} // namespace

TEST_CASE("what the weights lend is KV memory, and the streamed layers' transfers are paid for; then all is returned") {
  const auto run = [](auto engine) {
    for (int i = 0; i < 4; ++i) REQUIRE(engine.submit({Seconds{0}, Tokens{64}, Tokens{30}, {}}).has_value());
    LayerBlocks most{0};
    while (engine.step() == Stepped::ran) {
      most = std::max(most, engine.ledger().device().capacity());
      check_ledger(engine);
    }
    CHECK(engine.alive() == 0);
    return std::pair{engine.now(), most};
  };
  const auto make = [&]<class E>(std::int64_t blocks) {
    return *E::make({.limits = {.batch = 8, .batch_tokens = Tokens{64}},
                     .geometry = {4, Bytes{4096}, Bytes{1 << 16}},
                     .device_blocks = LayerBlocks{4 * blocks},
                     .host_blocks = LayerBlocks{0},
                     .cost = SmallCost{},
                     .backend = BasicSimulated<SmallCost>{SmallCost{}}});
  };
  using Lends = Engine<LendWhenShort, SmallCost, BasicSimulated<SmallCost>>;
  using Owns = Engine<SmallCost, BasicSimulated<SmallCost>>;
  const auto [lent_end, lent_most] = run(make.template operator()<Lends>(20));
  const auto [owned_end, owned_most] = run(make.template operator()<Owns>(27));
  CHECK(lent_most == LayerBlocks{4 * 27});
  CHECK(owned_most == LayerBlocks{4 * 27});
  CHECK_MESSAGE(lent_end > owned_end, "two layers' weights cross the link in every step while they are lent");
  const auto [enough_end, enough_most] = run(make.template operator()<Lends>(40));
  CHECK(enough_most == LayerBlocks{4 * 40});
  CHECK(enough_end <= owned_end);
}

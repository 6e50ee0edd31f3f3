// SPDX-License-Identifier: Apache-2.0
// Weights: the concept, and the engine's accounts while device memory is lent and returned.
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/policy/placement/fewest_layers.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/retention/move_to_host.hpp"
#include "sluice/policy/weights/resident_weights.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Half of the layers' weights stream through one slot as soon as KV needs more memory than available, and return as
/// soon as it does not. Without hysteresis: no server should do this, but the accounts must withstand it.
struct LendWhenShort {
  using role = roles::Weights;
  static constexpr bool promises = false;
  static constexpr bool lends = false;
  struct State {};

  template <class Task>
  void offer(const Task& task, State&, std::vector<WeightsLevel>& levels) const {
    if (task.demand <= task.own) return;
    LayerSet streamed;
    for (int layer = 1; layer < task.layers(); layer += 2) streamed.insert(layer);
    levels.push_back(WeightsLevel::of(task.view.geometry, streamed, 1));
    levels.back().plan.freed = most_freed(task.view.geometry);
  }
  [[nodiscard]] LayerBlocks most_freed(const Geometry& geometry) const {
    return std::min(LayerBlocks{7L * geometry.layers}, geometry.blocks_in(geometry.layers / 2 - 1));
  }
};
struct OffersNothing : LendWhenShort {
  void offer() const {}
};
struct FreesNobodyKnows {
  using role = roles::Weights;
  [[maybe_unused]] static constexpr bool promises = false;
  [[maybe_unused]] static constexpr bool lends = false;
  struct State {};
  template <class Task>
  void offer(const Task&, State&, std::vector<WeightsLevel>&) const {}
};
struct WithoutState : LendWhenShort {
  using State = void;
};

static_assert(Weights<LendWhenShort> && Weights<ResidentWeights>);
static_assert(!Weights<OffersNothing> && !Weights<WithoutState> && !Weights<FreesNobodyKnows>);

/// Compares the bytes that cross the link with the plans: streamed weights in every iteration, and returning ones once.
struct WeightsAudit {
  using role = roles::Observer;
  using hears = Events<events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct State {
    LayerSet streamed;
    int returns = 0;
    std::int64_t wrong_bytes = 0;
    std::int64_t too_short = 0;
  };
  static constexpr Bytes layer{1 << 18};
  static constexpr BytesPerSecond rate{3e6};

  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    const LayerSet now = record.plan->weights.streamed;
    const LayerSet back = state.streamed - now;
    state.wrong_bytes += record.weights == layer * (now.count() + back.count()) ? 0 : 1;
    state.too_short += record.duration < layer * back.count() / rate ? 1 : 0;
    state.returns += back.empty() ? 0 : 1;
    state.streamed = now;
  }
};

/// Refuses odd prompts.
struct PromisesEven : LendWhenShort {
  static constexpr bool promises = true;
  template <class Request>
  Status promise(const Request& request) const {
    if (request.spec.prompt.count() % 2 == 1)
      return Error{ErrorCode::infeasible, "", "its prompt is odd", "an even one"};
    return {};
  }
};
struct PromisesTokens : LendWhenShort {
  static constexpr bool promises = true;
  template <class Request>
  Tokens promise(const Request&) const {
    return Tokens{0};
  }
};
static_assert(PromisesSlo<PromisesEven> && Weights<PromisesEven>);
static_assert(!PromisesSlo<LendWhenShort> && !Weights<PromisesTokens>);

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

TEST_CASE("the weights lend KV memory, the streamed layers' transfers take time, and everything is returned") {
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
                     .geometry = {4, Bytes{4096}, Bytes{1 << 17}},
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

TEST_CASE("weights that return cross the link once more, and the iteration waits for them") {
  Random random{9};
  int returns = 0;
  for (int round = 0; round < 60; ++round) {
    const Trial trial = random_trial(random);
    SmallCost world;
    world.rate = WeightsAudit::rate;
    if (round % 2 == 1) world.lanes = Lanes::each_way;
    using E = Engine<LendWhenShort, SmallCost, BasicSimulated<SmallCost>, WeightsAudit>;
    auto engine = *E::make({.limits = {.batch = trial.batch, .batch_tokens = Tokens{64}, .max_context = Tokens{256}},
                            .geometry = {trial.layers, Bytes{4096}, WeightsAudit::layer},
                            .device_blocks = trial.device,
                            .host_blocks = LayerBlocks{0},
                            .cost = SmallCost{},
                            .backend = BasicSimulated<SmallCost>{world}});
    for (const RequestSpec& request : trial.requests) (void)engine.submit(request);
    while (engine.step() == Stepped::ran) check_ledger(engine);
    const WeightsAudit::State& seen = engine.observed<WeightsAudit>();
    CHECK(seen.wrong_bytes == 0);
    CHECK(seen.too_short == 0);
    returns += seen.returns;
  }
  CHECK(returns > 20);
}

TEST_CASE("a request is refused at submission with the weights' reason, or for memory that they do not guarantee") {
  const auto submit = [](auto policy, std::int64_t prompt) {
    using E = Engine<decltype(policy), SmallCost, BasicSimulated<SmallCost>>;
    auto engine = *E::make({.limits = {},
                            .geometry = {4, Bytes{4096}, Bytes{1 << 17}},
                            .device_blocks = LayerBlocks{4 * 20},
                            .host_blocks = LayerBlocks{0},
                            .cost = SmallCost{},
                            .backend = BasicSimulated<SmallCost>{SmallCost{}}});
    const Expected<RequestId> id = engine.submit({Seconds{0}, Tokens{prompt}, Tokens{1}, {}});
    return id ? std::string{} : id.error().line();
  };
  CHECK(submit(PromisesEven{}, 20 * 16).empty());
  CHECK(submit(PromisesEven{}, 20 * 16 - 1) == "request 0: its prompt is odd; expected an even one");
  CHECK(submit(PromisesEven{}, 27 * 16).empty()); // with the 28 blocks that it could free
  CHECK(submit(PromisesEven{}, 28 * 16) ==
        "request 0: its KV takes 112 layer blocks of device memory; expected at most 108");
  CHECK(submit(LendWhenShort{}, 27 * 16).empty());
}

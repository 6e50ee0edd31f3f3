// SPDX-License-Identifier: Apache-2.0
// The policies that stream weights: MIRAGE's equations and spacing, FlexGen's share, each against the evaluator.
#include "sluice/core/random.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"

#include "engine/trials.hpp"
#include "policy/weights/round_machine.hpp"
#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

double step_of(Machine& machine, LayerSet streamed, int slots) {
  StreamedStep step;
  return step(machine.task(LayerBlocks{0}, LayerBlocks{0}),
              WeightsLevel::of(machine.view.geometry, streamed, slots).plan)
      .count();
}

/// How many requests were preempted, and in how many of those steps the weights took memory back.
struct PreemptsAndLevels {
  using role = roles::Observer;
  using hears = Events<events::Preempted, events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct State {
    int level = 0;
    int now = 0;
    int preempts = 0, returns = 0, preempts_of_returns = 0;
  };
  void on(State& state, const events::Preempted&) const { ++state.now; }
  void on(State& state, const events::Iterated& event) const {
    const int level = event.record.plan->weights.level;
    state.preempts += state.now;
    state.returns += level < state.level ? 1 : 0;
    state.preempts_of_returns += level < state.level ? state.now : 0;
    state.level = level;
    state.now = 0;
  }
};

SLUICE_CONSERVES(DeepSpeedWeights)
SLUICE_CONSERVES(FlexGenWeights)
SLUICE_CONSERVES(Mirage)
SLUICE_CONSERVES(MirageOneSlot)
SLUICE_CONSERVES(MirageNoReversion)

} // namespace

TEST_CASE("no set of layers is faster than the evenly spaced one of the same size: all subsets of up to 16 layers") {
  Random random{77};
  for (int layers = 2; layers <= 16; ++layers) {
    const int most = layers <= 12 ? layers : 4; // for longer models only small sets, which are thousands too
    for (int count = 1; count <= most; ++count)
      for (int slots = 1; slots <= std::min(2, count); ++slots) {
        Machine machine{layers, 1, (0.3 + 1.5 * random.uniform()) * layers / count};
        const double even = step_of(machine, circular_layers(LayerSet::all(layers), count), slots);
        double best = even;
        for (std::uint32_t mask = 0; mask < (1u << layers); ++mask) {
          if (std::popcount(mask) != count) continue;
          LayerSet set;
          for (int layer = 0; layer < layers; ++layer)
            if ((mask >> layer & 1u) != 0) set.insert(layer);
          best = std::min(best, step_of(machine, set, slots));
        }
        INFO(layers << " layers, " << count << " streamed through " << slots);
        CHECK(even <= best * (1 + 1e-9));
      }
  }
}

TEST_CASE("MIRAGE's equations say when transfers are hidden, and from where on two slots allow more") {
  Random random{78};
  for (int trial = 0; trial < 2000; ++trial) {
    const int layers = 4 + static_cast<int>(random.below(60));
    const int alpha = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(layers - 2)));
    const double transfer_s = 8 * random.uniform();
    Machine machine{layers, 1, transfer_s};
    const double unhidden_one = step_of(machine, circular_layers(LayerSet::all(layers), alpha + 1), 1) - layers;
    const double unhidden_two = step_of(machine, circular_layers(LayerSet::all(layers), alpha + 2), 2) - layers;
    INFO(layers << " layers, alpha " << alpha << ", transfer " << transfer_s);
    // The equations are for the mean gap; uneven gaps of floor(n / m) layers may need a little more.
    const int gap_one = layers / (alpha + 1) - 1;
    if (transfer_s <= gap_one) CHECK(unhidden_one <= 1e-9);
    if (!ParameterRemap::one_slot_hides(layers, alpha, transfer_s, 1)) CHECK(unhidden_one > 1e-9);
    if (!ParameterRemap::two_slots_hide(layers, alpha, transfer_s, 1)) CHECK(unhidden_two > 1e-9);
  }
  // Two slots allow a longer transfer than one once (alpha + 1)(alpha + 2) > n: at n = 40 from 6 on, not 9.
  for (int layers = 4; layers <= 128; ++layers)
    for (int alpha = 1; alpha + 2 <= layers; ++alpha) {
      const double one = static_cast<double>(layers - alpha - 1) / (alpha + 1);
      const double two = static_cast<double>(layers) / (alpha + 2);
      CHECK((two > one) == ((alpha + 1) * (alpha + 2) > layers));
    }
}

TEST_CASE("parameter remapping lends only as much as the demand needs and computing hides, and takes it back") {
  Machine machine{40, 1, 4};
  ParameterRemap::State state;
  std::vector<WeightsLevel> levels;
  const auto offered = [&](const ParameterRemap& remap, std::int64_t demand) {
    levels.clear();
    remap.offer(machine.task(LayerBlocks{demand}, LayerBlocks{10'000}), state, levels);
    const int level = levels.empty() ? 0 : levels.front().plan.level;
    machine.taken = level - machine.lent;
    return level;
  };
  const auto lent = [&](std::int64_t demand) { return offered({}, demand); };
  CHECK(lent(10'000) == 0);
  CHECK(lent(10'001) == 1); // a layer is 1,000 blocks
  CHECK(levels.front().plan.streamed == circular_layers(LayerSet::all(40), 2));
  CHECK(levels.front().plan.freed == LayerBlocks{1000});
  CHECK(lent(13'500) == 4);
  CHECK(lent(13'000) == 4); // otherwise it would change with every block of a varying demand
  CHECK(lent(11'900) == 3);
  CHECK(lent(50'000) == 8); // 4 (alpha + 2) <= 40, and 4 (alpha + 1) <= 39 - alpha no more
  CHECK(levels.front().plan.slots == 2);
  CHECK(levels.size() == 8);
  machine.cost.compute_s = 0.5; // a smaller batch hides at most 4: layers whose memory holds KV stay lent
  CHECK(lent(50'000) == 8);
  CHECK(lent(15'900) == 7);
  CHECK(lent(15'900) == 7);
  CHECK(lent(0) == 0);
  CHECK(lent(50'000) == 3); // 4 (alpha + 2) <= 20
  machine.cost.compute_s = 1;
  CHECK(lent(13'500) == 4);
  CHECK(offered({.revert = false}, 0) == 4);
  // With memory lent to others: its own lent layers stay, and memory that others return gives no claim to more.
  machine.lent = 3;
  CHECK(lent(13'500) == 7);
  CHECK(lent(20'000) == 8); // 8 are hidden
  machine.lent = 8;
  machine.taken = 0;
  CHECK(lent(20'000) == 8);
  machine.cost.compute_s = 0.5;
  machine.lent = 0;
  CHECK(lent(20'000) == 3);
}

TEST_CASE("taking lent memory back preempts no request") {
  // Requests are preempted only because the demand exceeds the memory: never in a step in which weights return.
  Random random{83};
  int preempted = 0, returned = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    trial.device = LayerBlocks{trial.layers * static_cast<std::int64_t>(6 + random.below(8))};
    trial.host = LayerBlocks{0};
    trial.batch = 12;
    SmallCost world;
    world.rate = BytesPerSecond{1e7 + 2e8 * random.uniform()};
    using E = With<Mirage, SmallCost, BasicSimulated<SmallCost>, PreemptsAndLevels>;
    auto engine = *E::make(trial_config<E>(trial, world, Bytes{1 << 16}, world));
    for (const RequestSpec& request : trial.requests) (void)engine.submit(request);
    while (engine.step() == Stepped::ran) check_ledger(engine);
    const PreemptsAndLevels::State& seen = engine.observed<PreemptsAndLevels>();
    preempted += seen.preempts;
    returned += seen.returns;
    CHECK(seen.preempts_of_returns == 0);
  }
  CHECK(preempted > 20);
  CHECK(returned > 20);
}

TEST_CASE("MIRAGE's ablations lend as many layers with one slot or two; one slot is often slower than the equations' "
          "choice") {
  Random random{81};
  int slower = 0, faster = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const int layers = 4 + static_cast<int>(random.below(60));
    Machine machine{layers, 1, 4 * random.uniform()};
    const auto task =
        machine.task(LayerBlocks{10'000 + static_cast<std::int64_t>(random.below(20'000))}, LayerBlocks{10'000});
    const auto offered = [&]<class P>(const P& policy) {
      typename P::State state;
      std::vector<WeightsLevel> levels;
      policy.offer(task, state, levels);
      return levels;
    };
    const auto chosen = offered(ParameterRemap{});
    const auto one = offered(BasicParameterRemap<RemapSlots::one>{});
    const auto two = offered(BasicParameterRemap<RemapSlots::two>{});
    REQUIRE(one.size() == chosen.size());
    REQUIRE(two.size() == chosen.size());
    INFO(layers << " layers");
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      CHECK(one[i].plan.slots == 1);
      CHECK(two[i].plan.slots == 2);
      CHECK(one[i].plan.level == chosen[i].plan.level);
      CHECK(two[i].plan.freed == chosen[i].plan.freed);
      StreamedStep step;
      CHECK((chosen[i].plan == one[i].plan || chosen[i].plan == two[i].plan));
      slower += step(task, one[i].plan).count() > step(task, chosen[i].plan).count() * (1 + 1e-9) ? 1 : 0;
      // Uneven gaps of floor(n / m) layers hide a little less than equations 4 and 5 imply.
      faster += step(task, one[i].plan).count() < step(task, chosen[i].plan).count() * (1 - 1e-9) ? 1 : 0;
    }
  }
  CHECK(slower > 100);
  CHECK(faster * 20 < slower);
  CHECK_FALSE(BasicParameterRemap<RemapSlots::by_equations, false>{}.revert);
}

TEST_CASE("the streamed share is the largest that its estimate allows, and smaller with peak rates or a shared bus") {
  Random random{80};
  int smaller = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const int layers = 2 + static_cast<int>(random.below(40));
    const double transfer_s = 0.5 + 6 * random.uniform();
    Machine machine{layers, 1, transfer_s, layers * (1 + 0.5 * random.uniform())};
    const auto task = machine.task(LayerBlocks{0}, LayerBlocks{0});
    const auto part_of = [&](std::optional<RoundCost> peak, int engines) {
      BasicStreamedShare<RoundCost> policy;
      policy.peak = peak;
      policy.engines_on_bus = engines;
      BasicStreamedShare<RoundCost>::State state;
      std::vector<WeightsLevel> levels;
      policy.offer(task, state, levels);
      return levels.empty() ? 0.0 : levels.front().plan.share;
    };
    const double slo_s = machine.rows[0].spec.slo.tbt.count();
    const double own = part_of(std::nullopt, 1);
    StreamedStep step;
    const auto level = [&](double share) {
      return WeightsLevel::of(machine.view.geometry, LayerSet::all(layers), 2, share).plan;
    };
    INFO(layers << " layers, transfer " << transfer_s);
    if (own > 0) CHECK(step(task, level(own)).count() <= slo_s * (1 + 1e-9));
    if (own < 1) CHECK(step(task, level(own + 1.0 / 256)).count() > slo_s);
    CHECK(part_of(std::nullopt, 2) <= own);
    smaller += part_of(std::nullopt, 2) < own ? 1 : 0;
  }
  CHECK(smaller > 100);
}

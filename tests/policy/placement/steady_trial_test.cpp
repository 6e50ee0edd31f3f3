// SPDX-License-Identifier: Apache-2.0
// SteadyTrial: memory against PlanTrial, and time against a decode that is evaluated many times over.
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/placement/steady_trial.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/state/plan/space.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

struct SteadyScene {
  HandMade made;
  std::vector<Claim> claims;
  LayerBlocks device{0}, host{0};
  PlainCost cost;

  template <class Transfer>
  [[nodiscard]] PlacementTask<PlainCost, Transfer, PerLayer> task(const View& view) const {
    return {view, claims, claims.size(), device, host, cost, Window{1, 16}};
  }
};

SteadyScene random_steady_scene(Random& random) {
  SteadyScene scene;
  std::int64_t blocks = 0;
  for (std::int64_t i = between(random, 1, 6); i > 0; --i) {
    const Slot slot = scene.made.decoding(Tokens{between(random, 1, 300)}, Tokens{between(random, 1, 50)}, Tokens{500});
    blocks += scene.made.rows[index(slot)].blocks.count() + 1;
    scene.claims.push_back({slot, Tokens{1}, Tokens{0}, true});
  }
  scene.device = LayerBlocks{static_cast<std::int64_t>((0.1 + random.uniform()) * static_cast<double>(8 * blocks))};
  scene.host = LayerBlocks{between(random, 0, 8 * blocks)};
  scene.cost.rate = BytesPerSecond{1e7 + 2e8 * random.uniform()};
  return scene;
}

Holding random_steady_holding(Random& random) {
  Holding holding{all_tokens, nested_layers(8, static_cast<int>(between(random, 0, 8))), {}};
  holding.written_back = random.below(2) == 0 && !holding.host.empty();
  return holding;
}

template <class Transfer>
void check_alike_memory(const SteadyScene& scene, const Holding& holding, int& fits, int& fits_not) {
  const View view = scene.made.view();
  const auto task = scene.task<Transfer>(view);
  const std::size_t count = scene.claims.size();
  PlanTrial<Transfer> one_by_one;
  Plan plan;
  hold_alike(task, count, holding, plan);
  const bool expected = one_by_one.fits(task, plan);
  const SteadyUse use = SteadyTrial<Transfer>::use(task, count, holding, 0);
  const LayerBlocks in_flight = SteadyTrial<Transfer>::in_flight(task, use.stream);
  CHECK(in_flight == plan.in_flight);
  CHECK((use.room.device + in_flight <= task.device_budget && use.room.host <= task.host_budget) == expected);
  ++(expected ? fits : fits_not);
}

} // namespace

TEST_CASE("all requests alike take the memory that PlanTrial counts request by request") {
  Random random(71);
  int fits = 0, fits_not = 0;
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    const SteadyScene scene = random_steady_scene(random);
    const Holding holding = random_steady_holding(random);
    check_alike_memory<DeadlinePool>(scene, holding, fits, fits_not);
    check_alike_memory<FairShare>(scene, holding, fits, fits_not);
  }
  CHECK(fits > 200);
  CHECK(fits_not > 200);
}

TEST_CASE("a steady decode takes what it computes or what its transfers take, and as long as many in a row") {
  Random random(72);
  int stalled = 0, hidden = 0;
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    const SteadyScene scene = random_steady_scene(random);
    const Holding holding = random_steady_holding(random);
    const View view = scene.made.view();
    const auto task = scene.task<DeadlinePool>(view);
    const std::size_t count = scene.claims.size();
    SteadyTrial<DeadlinePool> trial;
    const SteadyUse use = trial.use(task, count, holding, 0);
    if (use.room.device + trial.in_flight(task, use.stream) > task.device_budget) continue;
    const StepCost step = trial.step(task, count, use);
    const double computed = scene.cost.step(task.steady_decode(count)).total(8).count();
    CHECK(step.step_s >= computed * (1 - 1e-9));
    CHECK(step.step_s - step.stall_s == doctest::Approx(computed));
    CHECK(step.waits() == (step.step_s > computed * (1 + 1e-9)));
    // The mean of many iterations in a row, from an empty link. (Its first ones prefetch into an empty room.)
    std::vector<double> compute(8, scene.cost.step(task.steady_decode(count)).layer.count());
    Pipeline pipeline;
    pipeline.compute_s = compute;
    pipeline.before_s = pipeline.after_s = 1e-4;
    pipeline.link = task.block_link();
    if (!use.stream.layers.empty()) pipeline.streams = {&use.stream, 1};
    pipeline.room_blocks = static_cast<double>((task.device_budget - use.room.device).count());
    DeadlinePool::State link;
    constexpr int iterations = 400;
    double all_s = 0;
    for (int i = 0; i < iterations; ++i) {
      const double one_s = evaluate_link<DeadlinePool>(pipeline, link).step_s;
      if (i >= iterations / 2) all_s += one_s;
    }
    const double mean_s = all_s / (iterations / 2);
    CHECK(mean_s >= trial.link_s(task, use.stream) * (1 - 1e-6)); // whatever the schedule
    if (trial.link_s(task, use.stream) <= computed) CHECK(mean_s <= step.step_s * (1 + 1e-6));
    ++(step.waits() ? stalled : hidden);
  }
  CHECK(stalled > 100);
  CHECK(hidden > 100);
}

TEST_CASE("no fewer layers away fit without what is in flight, and these do") {
  Random random(73);
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    const SteadyScene scene = random_steady_scene(random);
    const View view = scene.made.view();
    const auto task = scene.task<DeadlinePool>(view);
    const auto away = [&](int out) {
      const Holding holding{all_tokens, nested_layers(8, out), {}};
      return SteadyTrial<DeadlinePool>::use(task, scene.claims.size(), holding, 0).room.device <= task.device_budget;
    };
    const double each = SteadyTrial<DeadlinePool>::use(task, scene.claims.size(), Holding{}, 0).stream.blocks;
    const int fewest = task.fewest_away(LayerBlocks{static_cast<std::int64_t>(each)});
    CHECK(away(fewest));
    if (fewest > 0) CHECK(!away(fewest - 1));
  }
}

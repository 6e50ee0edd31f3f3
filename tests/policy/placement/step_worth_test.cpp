// SPDX-License-Identifier: Apache-2.0
// StepWorth: what is worth it, against the evaluator that moves the same KV.
#include "sluice/policy/placement/steady_trial.hpp"
#include "sluice/policy/placement/step_worth.hpp"
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

struct WorthScene {
  HandMade made;
  std::vector<Claim> claims;
  LayerBlocks device{0}, host{0};
  PlainCost cost;
  double tokens = 0, tightest_s = 1e9;

  [[nodiscard]] PlacementTask<PlainCost, DeadlinePool, PerLayer> task(const View& view) const {
    return {view, claims, claims.size(), device, host, cost, Window{1, 16}};
  }
};

WorthScene random_worth_scene(Random& random) {
  WorthScene scene;
  for (std::int64_t i = between(random, 1, 12); i > 0; --i) {
    const Slot slot = scene.made.decoding(Tokens{between(random, 1, 400)}, Tokens{between(random, 1, 60)}, Tokens{500});
    RequestRow& row = scene.made.rows[index(slot)];
    row.spec.slo.tbt = Seconds{0.01 + 0.1 * random.uniform()};
    scene.tightest_s = std::min(scene.tightest_s, row.spec.slo.tbt.count());
    scene.tokens += static_cast<double>(row.context().count());
    scene.claims.push_back({slot, Tokens{1}, Tokens{0}, true});
  }
  const double share = 0.2 + random.uniform();
  scene.device = LayerBlocks{static_cast<std::int64_t>(share * 8 * scene.tokens / 16) + 8};
  scene.host = LayerBlocks{between(random, 0, 3) == 0 ? between(random, 0, 200) : 1 << 20};
  scene.cost.rate = BytesPerSecond{1e7 + 1e8 * random.uniform()};
  return scene;
}

} // namespace

TEST_CASE("the longest step that is worth it gives one more request its share, within the SLO") {
  Random random(61);
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    const StepWorth step{.worth = 4 * random.uniform()};
    const auto requests = static_cast<std::size_t>(between(random, 1, 64));
    const double computed = 0.01 + random.uniform(), slo = 2 * random.uniform();
    const double longest = step.longest_s(computed, requests, slo);
    CHECK(longest >= computed);
    if (computed <= slo) CHECK(longest <= slo);
    // At worth 1 and no SLO, tokens per second with one more request are those without it and without a wait.
    const auto n = static_cast<double>(requests);
    const double even = StepWorth{.worth = 1}.longest_s(computed, requests, 1e9);
    CHECK((n + 1) / even == doctest::Approx(n / computed));
  }
}

TEST_CASE("what is worth it takes about as long as the evaluator says if the fewest layers are away") {
  Random random(62);
  int worthy = 0, in_vain = 0, close = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    WorthScene scene = random_worth_scene(random);
    scene.host = LayerBlocks{1 << 20};
    const View view = scene.made.view();
    const auto task = scene.task(view);
    const std::size_t count = scene.claims.size();
    const double n = static_cast<double>(count);
    const StepWorth step{};
    const bool holds = step.holds(task, count, scene.tokens + 8 * n, scene.tightest_s);
    // The same KV in whole blocks and whole layers.
    SteadyTrial<DeadlinePool> trial;
    const double longest = step.longest(task, count).count();
    const double computed = scene.cost.step(task.steady_decode(count)).total(8).count();
    bool fits = false;
    double shortest = 1e9;
    for (int out = 0; out <= 8; ++out) {
      const Holding holding{all_tokens, nested_layers(8, out), {}};
      const SteadyUse use = trial.use(task, count, holding, 0);
      if (use.room.device + trial.in_flight(task, use.stream) > task.device_budget) continue;
      if (use.room.host > task.host_budget) break;
      fits = true;
      shortest = std::min(shortest, trial.step(task, count, use).step_s);
    }
    // A layer more or less, and half a block of each request, is the difference.
    const double slack = 2 * scene.tokens / 16 * 4096 / scene.cost.rate.count() + 0.02 * computed;
    const bool can = fits && computed <= scene.tightest_s;
    if (can && shortest < longest - slack) {
      CHECK(holds);
      ++worthy;
    } else if (!can || shortest > longest + slack) {
      CHECK(!holds);
      ++in_vain;
    } else {
      ++close;
    }
  }
  CHECK(worthy > 300);
  CHECK(in_vain > 300);
  CHECK(close < 1000);
}

TEST_CASE("steps stay worth it exactly if they are at each request's end") {
  Random random(63);
  int stays = 0, leaves = 0;
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    const WorthScene scene = random_worth_scene(random);
    const View view = scene.made.view();
    const auto task = scene.task(view);
    std::vector<FutureClaim> future;
    for (std::size_t place = 0; place < scene.claims.size(); ++place)
      future.push_back(FutureClaim::of(view, view.row(scene.claims[place].slot),
                                       static_cast<double>(between(random, 1, 300)), place));
    std::sort(future.begin(), future.end(), FutureClaim::longest_first);
    const StepWorth step{};
    for (std::size_t count = 1; count <= scene.claims.size(); ++count) {
      double slo = 1e9;
      for (std::size_t i = 0; i < count; ++i) slo = std::min(slo, view.row(scene.claims[i].slot).spec.slo.tbt.count());
      bool always = true;
      for (const FutureClaim& end : future) { // those left at this end, counted one by one
        if (end.place >= count) continue;
        std::size_t left = 0;
        double tokens = 0;
        for (const FutureClaim& one : future) {
          if (one.place >= count || FutureClaim::longest_first(end, one)) continue;
          ++left;
          tokens += one.context + end.remaining;
        }
        always = always && step.holds(task, left, tokens, slo);
      }
      CHECK(step.stays(task, future, count) == always);
      ++(always ? stays : leaves);
    }
  }
  CHECK(stays > 200);
  CHECK(leaves > 200);
}

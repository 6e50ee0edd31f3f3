// SPDX-License-Identifier: Apache-2.0
// GroupedDistance: its plans fit and predict correctly; for few requests they are the exact search's, and for many
// neither memory nor the SLO is worse kept than by any single distance.
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/policy/placement/grouped_distance.hpp"
#include "sluice/policy/placement/step_trial.hpp"
#include "sluice/policy/placement/uniform_distance.hpp"
#include "sluice/policy/transfer/fair_share.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

template <class Transfer>
using LayerTask = PlacementTask<PlainCost, Transfer, PerLayer>;

struct GroupedBatch {
  HandMade made;
  std::vector<Claim> claims;
  LayerBlocks device{0};
  PlainCost cost;

  template <class Transfer>
  [[nodiscard]] LayerTask<Transfer> task(const View& view, std::size_t required) const {
    return {view, claims, required, device, LayerBlocks{1 << 24}, cost, Window{1, 16}};
  }
};

/// Decoding requests, all required, with memory for a share of their KV and a link for any part of it.
GroupedBatch random_scene(Random& random, std::int64_t requests) {
  GroupedBatch scene;
  std::int64_t blocks = 0;
  for (std::int64_t i = 0; i < requests; ++i) {
    const Slot slot = scene.made.decoding(Tokens{between(random, 1, 400)}, Tokens{between(random, 1, 50)}, Tokens{500});
    scene.made.rows[index(slot)].spec.slo.tbt = Seconds{random.below(2) == 0 ? 0.1 : 0.2};
    scene.claims.push_back({slot, Tokens{1}, Tokens{0}, true});
    blocks += scene.made.rows[index(slot)].blocks.count() + 2;
  }
  scene.cost.per_context_token = Seconds{4e-6 / static_cast<double>(requests)}; // within the SLO
  const double share = 0.3 + 0.9 * random.uniform();
  scene.device = LayerBlocks{static_cast<std::int64_t>(share * static_cast<double>(8 * blocks)) + 16};
  scene.cost.rate = BytesPerSecond{4e6 * static_cast<double>(requests) * (1 + 20 * random.uniform())};
  return scene;
}

template <class Policy, class Transfer>
Verdict solved(const Policy& policy, const LayerTask<Transfer>& task, Plan& plan) {
  typename Policy::template State<Transfer> state;
  return policy.solve(task, state, plan);
}

} // namespace

TEST_CASE_TEMPLATE("a plan for any number of requests fits, and its step is what the evaluator says", Transfer,
                   FairShare, DeadlinePool) {
  Random random(21);
  int offloads = 0, infeasible = 0;
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    GroupedBatch scene = random_scene(random, between(random, 1, 70));
    if (round % 3 == 0) scene.cost.rate = scene.cost.rate / 50.0; // no plan keeps the SLO unless nearly all fits
    const View view = scene.made.view();
    const LayerTask<Transfer> task = scene.task<Transfer>(view, scene.claims.size());
    Plan plan;
    const Verdict verdict = solved(GroupedDistance{}, task, plan);
    infeasible += !verdict.feasible;
    if (!verdict.feasible) continue;
    REQUIRE(plan.requests.size() == scene.claims.size());
    std::vector<LayerSet> sets; // those in use: one per group at most
    for (const RequestPlan& one : plan.requests)
      if (std::find(sets.begin(), sets.end(), one.holding.host) == sets.end()) sets.push_back(one.holding.host);
    CHECK(sets.size() <= 6);
    offloads += sets.size() > 1 || !sets.front().empty();
    StepTrial<Transfer> trial;
    Plan again = plan;
    CHECK(trial.fits(task, again));
    CHECK(trial.fits(task.after(Tokens{15}), again)); // it lasts
    // The groups' blocks are those at the end of the window, so the step is at least that of now.
    CHECK(plan.predicted_step.count() >= trial.step(task, again).count() * 0.999);
  }
  CHECK(offloads > 30);
  CHECK(infeasible > 5);
}

TEST_CASE("with as many groups as requests the plan is the exact search's") {
  Random random(22);
  int compared = 0;
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    const GroupedBatch scene = random_scene(random, between(random, 1, 4));
    const View view = scene.made.view();
    const LayerTask<FairShare> task = scene.task<FairShare>(view, scene.claims.size());
    GroupedDistance grouped{.options = {.node_limit = 100'000}};
    DistancePlacement exact{.options = {.node_limit = 100'000}};
    Plan a, b;
    const bool feasible = solved(grouped, task, a).feasible;
    if (!feasible || !solved(exact, task.after(Tokens{16}), b).feasible) continue;
    CHECK(a.proven_optimal);
    // The exact search 16 tokens later judges the same blocks; its cost model is asked at that context.
    const double computed = scene.cost.step(task.steady_decode(scene.claims.size())).total(8).count();
    const double later = scene.cost.step(task.after(Tokens{16}).steady_decode(scene.claims.size())).total(8).count();
    CHECK(a.predicted_step.count() <= b.predicted_step.count() * (1 + 1e-9));
    CHECK(a.predicted_step.count() >= b.predicted_step.count() - (later - computed) - 1e-9);
    ++compared;
  }
  CHECK(compared > 50);
}

TEST_CASE("groups serve a large batch no worse than the best single distance, in a bounded search") {
  Random random(23);
  int compared = 0, better = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const GroupedBatch scene = random_scene(random, between(random, 60, 256));
    const View view = scene.made.view();
    const LayerTask<FairShare> task = scene.task<FairShare>(view, scene.claims.size());
    GroupedDistance policy;
    Plan plan, uniform;
    const bool feasible = solved(policy, task, plan).feasible;
    CHECK(std::int64_t{plan.effort} <= policy.options.node_limit + 16);
    UniformDistance single;
    single.options.alpha = policy.options.alpha;
    if (!solved(single, task.after(Tokens{16}), uniform).feasible) continue;
    REQUIRE(feasible);
    CHECK(plan.predicted_step.count() <= uniform.predicted_step.count() * (1 + 1e-9));
    better += plan.predicted_step.count() < 0.999 * uniform.predicted_step.count();
    ++compared;
  }
  CHECK(compared > 20);
  CHECK(better > 5);
}

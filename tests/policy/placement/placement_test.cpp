// SPDX-License-Identifier: Apache-2.0
// Placement: every policy's plan fits and predicts correctly, compared with searches through all its choices.
#include "sluice/policy/placement/all_resident.hpp"
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/policy/placement/fewest_layers.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/placement/slo_uniform.hpp"
#include "sluice/policy/placement/step_trial.hpp"
#include "sluice/policy/placement/uniform_distance.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// A minimal Placement: it places no request.
struct Nobody {
  using role = roles::Placement;
  static constexpr bool places_layers = false;
  template <class Transfer>
  struct State {};
  Holding least(int) const { return {}; }
  template <class Task, class S>
  Verdict solve(const Task&, S&, Plan&) const {
    return Verdict::infeasible(Binding::none);
  }
};
struct PlainState : Nobody {
  struct State {}; // hides the template
};
struct SolvesByBool : Nobody {
  template <class Task, class S>
  bool solve(const Task&, S&, Plan&) const {
    return false;
  }
};
struct LeastOfNothing : Nobody {
  Holding least() const { return {}; }
};

static_assert(Placement<Nobody> && Placement<AllResident> && Placement<OffloadAll> && Placement<FixedDistance<3>>);
static_assert(Placement<FewestLayers> && Placement<UniformDistance> && Placement<SloUniform>);
static_assert(Placement<DistancePlacement> && Placement<EvenPlacement>);
static_assert(!Placement<PlainState> && !Placement<SolvesByBool> && !Placement<LeastOfNothing>);

struct Scene {
  HandMade made;
  std::vector<Claim> claims;
  std::size_t required = 0;
  LayerBlocks device{0}, host{0};
  PlainCost cost;
  bool slo = false;
};

/// A few requests that decode or will decode, required claims first, in memory that holds some or all of them.
Scene random_scene(Random& random) {
  Scene scene;
  scene.made.geometry.layers = static_cast<int>(between(random, 2, 12));
  scene.slo = random.below(2) == 0;
  scene.cost.rate = BytesPerSecond{4e6 + 1e8 * random.uniform()};
  const std::int64_t count = between(random, 1, 6);
  std::int64_t blocks = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Slot slot = scene.made.decoding(Tokens{between(random, 1, 400)}, Tokens{1}, Tokens{50});
    RequestRow& row = scene.made.rows[index(slot)];
    if (scene.slo) row.spec.slo.tbt = Seconds{0.005 + 0.05 * random.uniform()};
    scene.claims.push_back({slot, Tokens{1}, Tokens{0}, false});
    blocks += row.blocks_after(Tokens{1}, scene.made.limits.block_tokens).count();
  }
  scene.required = static_cast<std::size_t>(between(random, 0, count));
  for (std::size_t i = 0; i < scene.required; ++i) scene.claims[i].required = true;
  const auto all = static_cast<double>(blocks * scene.made.geometry.layers);
  scene.device = LayerBlocks{static_cast<std::int64_t>(all * (0.1 + 1.1 * random.uniform()))};
  scene.host = LayerBlocks{static_cast<std::int64_t>(random.below(3) == 0 ? all * random.uniform() : 1e9)};
  return scene;
}

template <class Transfer>
using TaskOf = PlacementTask<PlainCost, Transfer, PerLayer>;

/// The scene as a task with its first `count` claims, optionally all of them required.
template <class Transfer, class Ask>
auto with_task(const Scene& scene, std::size_t count, bool all_required, Ask&& ask) {
  const View view = scene.made.view();
  const TaskOf<Transfer> task{view,
                              std::span{scene.claims}.first(count),
                              all_required ? count : std::min(scene.required, count),
                              scene.device,
                              scene.host,
                              scene.cost,
                              Window{1, 1}};
  return ask(task);
}

std::int64_t blocks_of(const Scene& scene, const Claim& claim) {
  return blocks_for(scene.made.rows[index(claim.slot)].computed + claim.tokens, Tokens{16}).count();
}

/// The memory of the first sets.size() claims without these layers, counted independently.
struct Room {
  std::int64_t device = 0, host = 0;
  double held = 0;
  [[nodiscard]] bool fits(const Scene& scene) const {
    return static_cast<double>(device) + held <= static_cast<double>(scene.device.count()) &&
           host <= scene.host.count();
  }
};
template <class Transfer>
Room room(const Scene& scene, const std::vector<LayerSet>& sets) {
  Room sum;
  std::vector<double> loads(static_cast<std::size_t>(scene.made.geometry.layers), 0.0);
  std::vector<LayerStream> streams;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::int64_t blocks = blocks_of(scene, scene.claims[i]);
    sum.host += blocks * sets[i].count();
    sum.device += blocks * (scene.made.geometry.layers - sets[i].count());
    if (sets[i].empty()) continue;
    streams.push_back({sets[i], static_cast<double>(blocks)});
    sets[i].for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] += static_cast<double>(blocks); });
  }
  sum.held = Transfer::held_blocks(loads, streams);
  return sum;
}

/// A policy's verdict on the first `count` claims, and its plan's residency for each accepted one.
struct Answer {
  Verdict verdict;
  Plan plan;
  std::vector<LayerSet> sets;
};
template <class P, class Transfer>
Answer ask(const P& policy, const Scene& scene, std::size_t count, bool all_required = false) {
  return with_task<Transfer>(scene, count, all_required, [&](const auto& task) {
    typename P::template State<Transfer> state;
    Answer answer;
    // An earlier plan's content must not matter.
    answer.plan.requests.assign(3, RequestPlan{Slot{77}, Holding{}});
    answer.plan.covers_unseen = true;
    answer.verdict = policy.solve(task, state, answer.plan);
    if (!answer.verdict.feasible) return answer;
    const std::size_t accepted = task.required + answer.verdict.joined;
    REQUIRE(accepted <= count);
    for (std::size_t i = 0; i < accepted; ++i) {
      const Claim& claim = scene.claims[i];
      if (answer.plan.requests.empty()) {
        REQUIRE(answer.plan.covers_unseen);
        answer.sets.push_back(answer.plan.unseen.host);
      } else {
        REQUIRE(answer.plan.requests.size() == accepted);
        REQUIRE(answer.plan.requests[i].slot == claim.slot);
        answer.sets.push_back(answer.plan.requests[i].holding.host);
      }
    }
    return answer;
  });
}

template <class P, class Transfer>
struct Pair {
  using policy = P;
  using transfer = Transfer;
};
template <class P>
using UnderRules = std::tuple<Pair<P, DeadlinePool>, Pair<P, FairShare>, Pair<P, NextLayer>>;

template <class Pair>
void check_promises() {
  using P = typename Pair::policy;
  using Transfer = typename Pair::transfer;
  Random random(81);
  int feasible = 0, infeasible = 0, partly = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const Scene scene = random_scene(random);
    const Answer answer = ask<P, Transfer>(P{}, scene, scene.claims.size());
    feasible += answer.verdict.feasible ? 1 : 0;
    infeasible += answer.verdict.feasible ? 0 : 1;
    if (!answer.verdict.feasible) CHECK(answer.verdict.binding != Binding::none);
    if (!answer.verdict.feasible) CHECK(scene.required > 0);
    if (answer.verdict.feasible) {
      partly += answer.sets.size() < scene.claims.size() ? 1 : 0;
      const Room taken = room<Transfer>(scene, answer.sets);
      if (!answer.sets.empty()) CHECK_MESSAGE(taken.fits(scene), "no plan uses memory that does not exist");
      if (!answer.sets.empty()) CHECK(static_cast<double>(answer.plan.in_flight.count()) >= taken.held - 1e-9);
    }
    // Fewer claims are never harder, so the optional claims that join are the longest possible prefix.
    std::size_t longest = 0;
    bool open = true;
    for (std::size_t count = 1; count <= scene.claims.size(); ++count) {
      const bool fits = ask<P, Transfer>(P{}, scene, count, true).verdict.feasible;
      CHECK_MESSAGE(open >= fits, "removing a claim never makes a feasible task infeasible");
      open = fits;
      if (fits) longest = count;
    }
    CHECK(answer.verdict.feasible == (longest >= scene.required));
    if (answer.verdict.feasible) CHECK(scene.required + answer.verdict.joined == longest);
  }
  CHECK(feasible > 50);
  CHECK(infeasible > 5);
  CHECK(partly > 20);
}

} // namespace

TEST_CASE_TEMPLATE_DEFINE("a plan fits, and accepts as many requests as possible", P, promises) { check_promises<P>(); }
TEST_CASE_TEMPLATE_APPLY(promises, UnderRules<AllResident>);
TEST_CASE_TEMPLATE_APPLY(promises, UnderRules<OffloadAll>);
TEST_CASE_TEMPLATE_APPLY(promises, UnderRules<FixedDistance<3>>);
TEST_CASE_TEMPLATE_APPLY(promises, UnderRules<FewestLayers>);
TEST_CASE_TEMPLATE_APPLY(promises, UnderRules<UniformDistance>);
TEST_CASE_TEMPLATE_APPLY(promises, UnderRules<SloUniform>);
TEST_CASE_TEMPLATE_APPLY(promises, UnderRules<DistancePlacement>);

TEST_CASE_TEMPLATE("FewestLayers takes the fewest evenly spaced layers that fit", T, DeadlinePool, FairShare,
                   NextLayer) {
  Random random(82);
  int some = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const Scene scene = random_scene(random);
    const Answer answer = ask<FewestLayers, T>(FewestLayers{}, scene, scene.claims.size());
    if (!answer.verdict.feasible || answer.sets.empty()) continue;
    int fewest = 0;
    const int layers = scene.made.geometry.layers;
    const auto uniform = [&](int count) {
      return std::vector<LayerSet>(answer.sets.size(), evenly_spaced_layers(layers, count));
    };
    while (!room<T>(scene, uniform(fewest)).fits(scene)) REQUIRE(++fewest <= layers);
    CHECK(answer.sets == uniform(fewest));
    some += fewest > 0 ? 1 : 0;
  }
  CHECK(some > 100);
}

namespace {

/// The predicted cost of one set for all requests, and whether memory and SLO hold: from the evaluator, the only code
/// shared with the policies.
template <class Transfer>
struct Judged {
  PlacementCost cost;
  bool holds = false;
};
template <class Transfer>
Judged<Transfer> judge(const Scene& scene, std::size_t count, LayerSet set) {
  return with_task<Transfer>(scene, count, true, [&](const auto& task) {
    Instance instance;
    planning_instance(task, count, PlanningOptions{}, instance);
    const std::vector<LayerSet> sets(count, set);
    PlacementEvaluator evaluator{transfer_rule_of<Transfer>};
    Judged<Transfer> judged;
    judged.cost = evaluator.cost(instance, sets);
    judged.holds = judged.cost.fits && room<Transfer>(scene, sets).host <= scene.host.count() &&
                   evaluator.hold(instance, sets, judged.cost).window > 0;
    return judged;
  });
}

} // namespace

TEST_CASE_TEMPLATE("UniformDistance takes the distance with the shortest step among those that hold", T, DeadlinePool,
                   FairShare, NextLayer) {
  Random random(83);
  int some = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const Scene scene = random_scene(random);
    const std::size_t count = scene.claims.size();
    const Answer answer = ask<UniformDistance, T>(UniformDistance{}, scene, count, true);
    double best = std::numeric_limits<double>::infinity();
    std::vector<LayerSet> space;
    DistanceSpace::candidates(scene.made.geometry.movable(), space);
    for (const LayerSet set : space)
      if (const auto judged = judge<T>(scene, count, set); judged.holds) best = std::min(best, judged.cost.step.step_s);
    CHECK(answer.verdict.feasible == (best < std::numeric_limits<double>::infinity()));
    if (!answer.verdict.feasible) continue;
    CHECK(answer.plan.predicted_step.count() == doctest::Approx(best));
    CHECK(judge<T>(scene, count, answer.sets[0]).cost.step.step_s == doctest::Approx(best));
    CHECK(std::count(answer.sets.begin(), answer.sets.end(), answer.sets[0]) == static_cast<std::ptrdiff_t>(count));
    some += answer.sets[0].empty() ? 0 : 1;
    // A distance per request is never worse.
    const Answer each = ask<DistancePlacement, T>(DistancePlacement{}, scene, count, true);
    REQUIRE(each.verdict.feasible);
    CHECK(each.plan.predicted_step.count() <= best * (1 + 1e-9));
  }
  CHECK(some > 50);
}

TEST_CASE_TEMPLATE("SloUniform takes the most layers that meet the tightest SLO, else the shortest step", T,
                   DeadlinePool, FairShare, NextLayer) {
  Random random(84);
  int meets = 0, misses = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const Scene scene = random_scene(random);
    const std::size_t count = scene.claims.size();
    const Answer answer = ask<SloUniform, T>(SloUniform{}, scene, count, true);
    double slo = std::numeric_limits<double>::infinity();
    for (const RequestRow& row : scene.made.rows) slo = std::min(slo, row.spec.slo.tbt.count());
    std::vector<LayerSet> space;
    DistanceSpace::candidates(scene.made.geometry.movable(), space);
    int most = -1;
    double shortest = std::numeric_limits<double>::infinity();
    for (const LayerSet set : space) {
      if (!room<T>(scene, std::vector<LayerSet>(count, set)).fits(scene)) continue;
      const double step = judge<T>(scene, count, set).cost.step.step_s;
      shortest = std::min(shortest, step);
      if (step <= slo) most = std::max(most, set.count());
    }
    CHECK(answer.verdict.feasible == (shortest < std::numeric_limits<double>::infinity()));
    if (!answer.verdict.feasible) continue;
    const double step = judge<T>(scene, count, answer.sets[0]).cost.step.step_s;
    CHECK(answer.plan.predicted_step.count() == doctest::Approx(step));
    if (most >= 0) {
      CHECK(answer.sets[0].count() == most);
      ++meets;
    } else {
      CHECK(step == doctest::Approx(shortest));
      ++misses;
    }
  }
  CHECK(meets > 50);
  CHECK(misses > 20);
}

TEST_CASE("FlexGen's placements are sized for the worst batch, and never changed") {
  Random random(85);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const Scene scene = random_scene(random);
    std::int64_t worst = 0;
    for (const Claim& claim : scene.claims) {
      const RequestRow& row = scene.made.rows[index(claim.slot)];
      worst += blocks_for(row.spec.prompt + row.output(not_a_policy), Tokens{16}).count();
    }
    const auto layers = scene.made.geometry.layers;
    // The whole batch at its longest, resident blocks and blocks in flight together.
    const auto fits = [&](int count) {
      const LayerSet set = evenly_spaced_layers(layers, count);
      std::vector<double> loads(static_cast<std::size_t>(layers), 0.0);
      set.for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] = static_cast<double>(worst); });
      const LayerStream stream{set, static_cast<double>(worst)};
      const double held = DeadlinePool::held_blocks(loads, std::span{&stream, 1});
      return static_cast<double>(worst * (layers - count)) + held <= static_cast<double>(scene.device.count());
    };
    int fewest = 0;
    while (fewest < layers && !fits(fewest)) ++fewest;
    using Ever = BasicFewestLayers<Horizon::ever_worst>;
    const Ever ever{TokenBlocks{worst}};
    const Answer answer = ask<Ever, DeadlinePool>(ever, scene, scene.claims.size());
    if (!answer.verdict.feasible) continue;
    CHECK(answer.plan.covers_unseen);
    CHECK(answer.plan.unseen.host == evenly_spaced_layers(layers, fewest));
  }
}

TEST_CASE_TEMPLATE("PlanTrial agrees with an independent count for any layers of each request", T, DeadlinePool,
                   FairShare, NextLayer) {
  Random random(86);
  int fitting = 0;
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    const Scene scene = random_scene(random);
    std::vector<LayerSet> sets;
    Plan plan;
    for (const Claim& claim : scene.claims) {
      LayerSet set;
      for (int layer = 0; layer < scene.made.geometry.layers; ++layer)
        if (random.below(2) == 0) set.insert(layer);
      sets.push_back(set);
      plan.requests.push_back({claim.slot, Holding{.host = set}});
    }
    const bool fits = with_task<T>(scene, sets.size(), true, [&](const auto& task) {
      PlanTrial<T> trial;
      return trial.fits(task, plan);
    });
    const Room taken = room<T>(scene, sets);
    CHECK(static_cast<double>(plan.in_flight.count()) == doctest::Approx(std::ceil(taken.held)));
    CHECK(fits == taken.fits(scene));
    const bool device = static_cast<double>(taken.device) + taken.held <= static_cast<double>(scene.device.count());
    CHECK(plan.binding == (!device ? Binding::device_memory : fits ? Binding::none : Binding::host_memory));
    fitting += fits ? 1 : 0;
  }
  CHECK(fitting > 20);
}

TEST_CASE_TEMPLATE("StepTrial agrees with the evaluator on memory, time and SLO for any layers of each request", T,
                   DeadlinePool, FairShare, NextLayer) {
  Random random(87);
  int within = 0, late = 0, waits = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const Scene scene = random_scene(random);
    std::vector<LayerSet> sets;
    Plan plan;
    const std::uint64_t away = random.below(5); // of four layers
    for (const Claim& claim : scene.claims) {
      LayerSet set;
      for (int layer = 0; layer < scene.made.geometry.layers; ++layer)
        if (random.below(4) < away) set.insert(layer);
      sets.push_back(set);
      plan.requests.push_back({claim.slot, Holding{all_tokens, set, {}}});
    }
    with_task<T>(scene, sets.size(), true, [&](const auto& task) {
      StepTrial<T> trial;
      const bool fits = trial.fits(task, plan);
      CHECK(fits == room<T>(scene, sets).fits(scene));
      if (!fits) return;
      Instance instance;
      planning_instance(task, sets.size(), PlanningOptions{}, instance);
      PlacementEvaluator evaluator{transfer_rule_of<T>};
      const PlacementCost cost = evaluator.cost(instance, sets);
      CHECK(trial.step(task, plan).count() == cost.step.step_s);
      CHECK(plan.predicted_step.count() == cost.step.step_s);
      CHECK((plan.binding == Binding::link) == (cost.step.stall_s > 0));
      const WindowCheck check = evaluator.hold(instance, sets, cost);
      // The host too: with the next token.
      const bool host =
          host_blocks(task, sets.size(), [&](std::size_t i) { return plan.requests[i].holding; }) <= task.host_budget;
      const bool holds = check.window > 0 && host;
      CHECK(trial.within_slo(task, plan) == holds);
      CHECK(trial.within_slo(task, plan) == holds); // the same answer when asked again
      if (holds) CHECK(plan.expires_at_step == task.view.step + check.window);
      if (!holds) CHECK(plan.binding == (check.window == 0 ? Binding::slo : Binding::host_memory));
      within += holds ? 1 : 0;
      late += check.window > 0 ? 0 : 1;
      waits += cost.step.stall_s > 0 ? 1 : 0;
      // Without an SLO only memory counts.
      StepTrial<T, SloBound::ignored> careless;
      CHECK(careless.within_slo(task, plan) == host);
    });
  }
  CHECK(within > 50);
  CHECK(late > 20);
  CHECK(waits > 20);
}

TEST_CASE("longest_prefix finds the last count for which a falling property holds") {
  for (std::size_t claims = 0; claims < 20; ++claims)
    for (std::size_t required = 0; required <= claims; ++required)
      for (std::size_t last = required; last <= claims; ++last)
        CHECK(longest_prefix(required, claims, [last](std::size_t count) { return count <= last; }) == last - required);
}

TEST_CASE("the least residency on a small host is one of at most so many layers, and grows with the host to the least "
          "of all") {
  const auto check = [](const auto& policy, bool every_number = false) {
    for (const int layers : {1, 7, 32, 80}) {
      int before = 0;
      for (int on_host = 0; on_host <= layers; ++on_host) {
        const Holding holding = policy.least(layers, on_host);
        CHECK(holding.host.count() <= on_host);
        // The most of a space: with distances, the next larger member has more layers than the host has room for.
        int most = 0;
        for (int distance = layers; distance >= 1; --distance)
          if (layers / distance <= on_host) most = layers / distance;
        CHECK(holding.host.count() == (every_number ? on_host : most));
        CHECK(holding.host.count() >= before);
        CHECK((holding.host | LayerSet::all(layers)) == LayerSet::all(layers));
        before = holding.host.count();
      }
      CHECK(policy.least(layers, 0).host.empty());
      CHECK(policy.least(layers, layers) == policy.least(layers));
    }
  };
  check(DistancePlacement{});
  check(EvenPlacement{}, true);
  check(BasicDistancePlacement<FreeSpace>{}, true);
  check(UniformDistance{});
  check(SloUniform{});
  check(FewestLayers{}, true);
  static_assert(!StatesLeastWithinHost<BasicFewestLayers<Horizon::ever_worst>>); // one set for every batch
  static_assert(!StatesLeastWithinHost<FixedDistance<2>>);
}

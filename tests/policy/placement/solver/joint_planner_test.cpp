// SPDX-License-Identifier: Apache-2.0
// The joint planner against an exhaustive reference in whole numbers, under every rule.
#include "sluice/policy/placement/solver/joint_planner.hpp"

#include "policy/placement/solver/joint_reference.hpp"
#include "policy/placement/solver/random_instance.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

struct Shape {
  int layers, requests;
};

/// A shape of 4 to 12 layers and 1 to 3 requests whose pruned space the reference can enumerate; some are at the ends.
Shape random_shape(Random& random, int i) {
  if (i % 250 == 0) return {6, 3};
  if (i % 50 == 1) return {12, 2};
  const auto below = [&](int most) { return static_cast<int>(random.below(static_cast<std::uint64_t>(most))); };
  switch (below(8)) {
  case 0:
    return {4, 3};
  case 1:
  case 2:
  case 3:
    return {4 + below(4), 2};
  default:
    return {4 + below(9), 1};
  }
}

WholeInstance random_whole(Random& random, Shape shape, bool rebuilds) {
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most - least + 1)));
  };
  WholeInstance whole;
  const std::int64_t usual = draw(4, 30); // ticks of a layer
  const bool uneven = random.below(3) == 0;
  for (int l = 0; l < shape.layers; ++l) whole.compute.push_back(uneven ? draw(1, 2 * usual) : usual);
  if (random.below(4) == 0) whole.before = draw(1, usual);
  if (random.below(4) == 0) whole.after = draw(1, usual);
  if (random.below(5) == 0) whole.latency = draw(1, 4);
  whole.held = static_cast<int>(draw(1, 2));
  std::int64_t per_layer = 0;
  for (int r = 0; r < shape.requests; ++r) {
    WholeRequest request;
    request.blocks = draw(2, 40);
    if (rebuilds) {
      request.state_blocks = draw(0, request.blocks);
      request.project = draw(0, request.blocks);
      request.pass = draw(0, 2 * request.blocks);
      const std::uint64_t kind = random.below(3);
      for (int l = 0; l < shape.layers; ++l)
        if (kind == 1 || (kind == 2 && random.below(2) == 0)) request.states.insert(l);
    }
    if (r > 0 && random.below(4) == 0) request = whole.requests.back();
    per_layer += request.blocks;
    whole.requests.push_back(request);
  }
  const std::int64_t all = per_layer * shape.layers;
  whole.device = draw(all / 10, all);
  const std::uint64_t levels = 1 + random.below(3);
  for (std::uint64_t i = 0; i < levels; ++i) {
    WholeLevel level;
    if (i > 0) {
      for (int l = 0; l < shape.layers; ++l)
        if (random.below(2) == 0) level.layers.insert(l);
      if (level.layers.empty()) level.layers.insert(shape.layers - 1);
      level.blocks = draw(1, 40);
      level.slots = std::min(static_cast<int>(draw(1, 2)), level.layers.count());
      level.gained = level.blocks * (level.layers.count() - level.slots);
    }
    whole.levels.push_back(level);
  }
  return whole;
}

/// The same as the solver's input: a tick is a second.
JointInstance joint_of(const WholeInstance& whole, bool rebuilds) {
  JointInstance joint;
  Instance& base = joint.base;
  for (const std::int64_t ticks : whole.compute) base.layer_compute_s.push_back(static_cast<double>(ticks));
  base.before_s = static_cast<double>(whole.before);
  base.after_s = static_cast<double>(whole.after);
  base.link_per_layer_s = static_cast<double>(whole.latency);
  base.link_blocks_per_s = 1;
  base.device_blocks = LayerBlocks{whole.device};
  joint.held_rebuilt = whole.held;
  for (const WholeRequest& request : whole.requests) {
    base.requests.push_back({.blocks = LayerBlocks{request.blocks}});
    if (rebuilds)
      joint.rebuilds.push_back({request.states, static_cast<double>(request.state_blocks),
                                static_cast<double>(request.project), static_cast<double>(request.pass)});
  }
  for (const WholeLevel& level : whole.levels)
    joint.levels.push_back(
        {{level.layers, static_cast<double>(level.blocks), level.slots}, static_cast<double>(level.gained)});
  return joint;
}

struct RuleCase {
  ReferenceRule reference;
  const SearchRule* rule;
  const char* name;
};
const RuleCase rules[] = {
    {ReferenceRule::deadline_pool, &search_rule_of<DeadlinePool>, "deadline-pool"},
    {ReferenceRule::next_layer, &search_rule_of<NextLayer>, "next-layer"},
    {ReferenceRule::earliest_deadline_first, &search_rule_of<EarliestDeadlineFirst>, "earliest-deadline-first"},
    {ReferenceRule::fair_share, &search_rule_of<FairShare>, "fair-share"},
};

/// Solves an instance, compares it with the reference over the pruned space, and returns the exact least time, or -1.
Wide compare(const RuleCase& rule, JointPlanner& planner, const WholeInstance& whole, bool rebuilds) {
  WholeJudge judge{rule.reference};
  std::vector<std::vector<KvWays>> options;
  for (const WholeRequest& request : whole.requests) options.push_back(pruned_ways(whole.layers(), request, rebuilds));
  const Wide best = least_time(judge, whole, options);
  const JointInstance joint = joint_of(whole, rebuilds);
  REQUIRE(check(joint).ok());
  const JointSolution& found = planner.solve(joint);
  CHECK(found.solution.proven_optimal);
  CHECK(found.solution.feasible == (best >= 0));
  if (best < 0 || !found.solution.feasible) return best;
  CHECK((judge.time(whole, found.level, found.ways) == best)); // exactly
  CHECK(found.solution.step_s ==
        doctest::Approx(static_cast<double>(best) / static_cast<double>(judge.scale(whole))).epsilon(1e-9));
  for (std::size_t r = 0; r < options.size(); ++r)
    CHECK(std::find(options[r].begin(), options[r].end(), found.ways[r]) != options[r].end());
  return best;
}

TEST_CASE("joint plans equal an exhaustive reference in whole numbers: 10,000 instances") {
  Random random{49};
  for (const RuleCase& rule : rules) {
    JointPlanner planner{*rule.rule};
    int rebuilt = 0, streamed = 0, fetched = 0, mixed = 0;
    for (int i = 0; i < 2'500; ++i) {
      INFO(std::string(rule.name) << ", instance " << i);
      const bool rebuilds = i % 5 != 0;
      const WholeInstance whole = random_whole(random, random_shape(random, i), rebuilds);
      if (compare(rule, planner, whole, rebuilds) < 0) continue;
      JointInstance joint = joint_of(whole, rebuilds);
      const JointSolution best = planner.solve(joint);
      bool rebuilds_some = false, fetches_some = false;
      for (const KvWays& way : best.ways) {
        rebuilds_some |= !way.rebuilt.empty();
        fetches_some |= !way.fetched.empty();
      }
      rebuilt += rebuilds_some;
      fetched += fetches_some;
      mixed += rebuilds_some && fetches_some && best.level > 0;
      streamed += best.level > 0;
      // Stopped early, all its statements are true.
      joint.base.node_limit = static_cast<std::int64_t>(random.below(80));
      const JointSolution& early = planner.solve(joint);
      CHECK(early.solution.lower_bound_s <= best.solution.step_s * (1 + 1e-9));
      if (early.solution.feasible) CHECK(early.solution.step_s >= best.solution.step_s * (1 - 1e-9));
      if (early.solution.feasible && early.solution.proven_optimal)
        CHECK(early.solution.step_s == doctest::Approx(best.solution.step_s).epsilon(1e-9));
      if (!early.solution.feasible) CHECK_FALSE(early.solution.proven_optimal);
    }
    // The instances are not trivial.
    CHECK(rebuilt > 200);
    CHECK(streamed > 100);
    CHECK(fetched > 500);
    CHECK(mixed > 20);
    MESSAGE(std::string(rule.name) << ": fetched " << fetched << ", rebuilt " << rebuilt << ", streamed " << streamed
                                   << ", all three " << mixed);
  }
}

TEST_CASE("all assignments of up to nine layers: what the pruned space loses") {
  Random random{50};
  const Shape shapes[] = {{4, 1}, {5, 1}, {6, 1}, {7, 1}, {8, 1}, {9, 1}, {4, 2}, {3, 3}};
  for (const RuleCase& rule : rules) {
    JointPlanner planner{*rule.rule};
    WholeJudge judge{rule.reference};
    std::vector<double> losses;
    int only_without = 0;
    for (int i = 0; i < 160; ++i) {
      INFO(std::string(rule.name) << ", instance " << i);
      const Shape shape = shapes[i % 8];
      const WholeInstance whole = random_whole(random, shape, true);
      const Wide pruned = compare(rule, planner, whole, true);
      const std::vector<std::vector<KvWays>> options(whole.requests.size(), all_ways(shape.layers, true));
      const Wide best = least_time(judge, whole, options);
      REQUIRE((pruned < 0 || best >= 0));
      if (best < 0) continue;
      if (pruned < 0) {
        ++only_without;
        continue;
      }
      CHECK((best <= pruned));
      losses.push_back(100 * (static_cast<double>(pruned) / static_cast<double>(best) - 1));
    }
    std::sort(losses.begin(), losses.end());
    const auto at = [&](double share) { return losses[static_cast<std::size_t>(share * double(losses.size() - 1))]; };
    const auto none = std::upper_bound(losses.begin(), losses.end(), 1e-9) - losses.begin();
    MESSAGE(std::string(rule.name) << ": " << losses.size() << " instances, no loss in " << none << "; loss % p50 "
                                   << at(.5) << " p90 " << at(.9) << " p99 " << at(.99) << " max " << at(1)
                                   << "; infeasible only when pruned " << only_without);
    CHECK(at(.5) <= 5);
  }
}

TEST_CASE("an instance without the new ways gets the planner's plan, to the bit") {
  Random random{51};
  for (const RuleCase& rule : rules) {
    JointPlanner joint_planner{*rule.rule};
    Planner planner{candidate_space_of<DistanceSpace>, *rule.rule};
    for (int i = 0; i < 100; ++i) {
      JointInstance joint;
      joint.base = random_instance(random, i % 2 == 1);
      REQUIRE(check(joint).ok());
      const JointSolution& ours = joint_planner.solve(joint);
      const Solution& theirs = planner.solve(joint.base);
      CHECK(ours.solution.offloaded == theirs.offloaded);
      CHECK(ours.solution.step_s == theirs.step_s);
      CHECK(ours.solution.lower_bound_s == theirs.lower_bound_s);
      CHECK(ours.solution.nodes == theirs.nodes);
      CHECK(ours.solution.window == theirs.window);
    }
  }
}

TEST_CASE("one level and nothing to rebuild: the joint search costs what the planner's plan costs") {
  Random random{52};
  for (const RuleCase& rule : rules) {
    JointPlanner joint_planner{*rule.rule};
    Planner planner{candidate_space_of<DistanceSpace>, *rule.rule};
    for (int i = 0; i < 200; ++i) {
      JointInstance joint;
      joint.base = random_instance(random, false);
      joint.base.iterations = 1;
      const Solution& theirs = planner.solve(joint.base);
      joint.levels = {{joint.base.weights, 0}};
      const JointSolution& ours = joint_planner.solve(joint);
      CHECK(ours.solution.feasible == theirs.feasible);
      if (theirs.feasible) CHECK(ours.solution.step_s == doctest::Approx(theirs.step_s).epsilon(1e-9));
    }
  }
}

TEST_CASE("the planner's own plans beside streamed weights and link latency equal the reference, too") {
  Random random{53};
  for (const RuleCase& rule : rules) {
    Planner planner{candidate_space_of<DistanceSpace>, *rule.rule};
    WholeJudge judge{rule.reference};
    for (int i = 0; i < 600; ++i) {
      INFO((std::string(rule.name) + ", instance " + std::to_string(i)));
      WholeInstance whole = random_whole(random, random_shape(random, i), false);
      whole.latency = 1 + static_cast<std::int64_t>(random.below(4));
      whole.levels = {whole.levels.back()};
      std::vector<std::vector<KvWays>> options;
      for (const WholeRequest& request : whole.requests) options.push_back(pruned_ways(whole.layers(), request, false));
      const Wide best = least_time(judge, whole, options);
      Instance instance = joint_of(whole, false).base;
      const WholeLevel& level = whole.levels[0];
      instance.weights = {level.layers, static_cast<double>(level.blocks), level.slots};
      instance.device_blocks = LayerBlocks{whole.device + level.gained};
      REQUIRE(check(instance).ok());
      const Solution& found = planner.solve(instance);
      CHECK(found.feasible == (best >= 0));
      if (best < 0 || !found.feasible) continue;
      std::vector<KvWays> ways;
      for (const LayerSet fetched : found.offloaded) ways.push_back({fetched, {}});
      CHECK((judge.time(whole, 0, ways) == best));
      CHECK(found.step_s ==
            doctest::Approx(static_cast<double>(best) / static_cast<double>(judge.scale(whole))).epsilon(1e-9));
    }
  }
}

TEST_CASE("a joint instance that is wrong is refused") {
  JointInstance joint;
  joint.base.layer_compute_s = {1, 1};
  joint.base.requests.push_back({.blocks = LayerBlocks{3}});
  joint.rebuilds.resize(1);
  CHECK(check(joint).ok());
  const auto refused = [&](auto&& change) {
    JointInstance wrong = joint;
    change(wrong);
    const Status status = check(wrong);
    return status.ok() ? std::string{} : status.error().line();
  };
  const auto says = [](const std::string& line, const char* part) { return line.find(part) != std::string::npos; };
  CHECK(says(refused([](JointInstance& j) { j.rebuilds.resize(2); }), "there are 2; expected one per request"));
  CHECK(says(refused([](JointInstance& j) { j.rebuilds[0].project_s = -1; }), "request 0 has a cost that is negative"));
  CHECK(says(refused([](JointInstance& j) { j.rebuilds[0].states.insert(2); }), "request 0 has states of layer 2"));
  CHECK(says(refused([](JointInstance& j) { j.held_rebuilt = 0; }), "held_rebuilt"));
  CHECK(says(refused([](JointInstance& j) { j.base.iterations = 2; }), "joint plans are for one iteration"));
  CHECK(says(refused([](JointInstance& j) { j.base.window_max = 2; }), "joint plans are for one iteration"));
  CHECK(says(refused([](JointInstance& j) { j.base.requests[0].slo_s = 1; }), "joint plans are for one iteration"));
  CHECK(says(refused([](JointInstance& j) {
               j.levels.push_back({{LayerSet::all(2), 0, 1}, 0});
             }),
             "levels: level 0: "));
}

} // namespace
} // namespace sluice::test

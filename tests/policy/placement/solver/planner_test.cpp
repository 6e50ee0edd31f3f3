// SPDX-License-Identifier: Apache-2.0
// The planner against exhaustive search, under every rule, in the distance, even and free spaces.
#include "sluice/policy/placement/solver/placement_evaluator.hpp"
#include "sluice/policy/placement/solver/planner.hpp"

#include "policy/placement/solver/random_instance.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Exhaustive {
  double best = infinity;
  bool fits = false; ///< some plan fits for the shortest window
};

/// Every plan of the space, using only the evaluator.
template <class Space, class Rule, class Count>
Exhaustive exhaustive(const Instance& instance) {
  std::vector<LayerSet> candidates;
  Space::candidates(instance.movable(), candidates);
  PlacementEvaluator evaluator{transfer_rule_of<Rule, Count>};
  Exhaustive result;
  std::vector<std::size_t> digits(instance.requests.size(), 0);
  std::vector<LayerSet> sets(instance.requests.size());
  for (;;) {
    for (std::size_t r = 0; r < sets.size(); ++r) sets[r] = candidates[digits[r]];
    const PlacementCost cost = evaluator.cost(instance, sets);
    if (cost.fits) {
      const WindowCheck check = evaluator.hold(instance, sets, cost);
      result.fits |= check.window > 0 || check.binding == Binding::slo;
      if (check.window > 0) result.best = std::min(result.best, cost.step.step_s);
    }
    std::size_t r = 0;
    while (r < digits.size() && ++digits[r] == candidates.size()) digits[r++] = 0;
    if (r == digits.size()) return result;
  }
}

template <class Space, class Rule, class Count>
void compare(Planner& planner, const Instance& instance, Random& random) {
  const Exhaustive truth = exhaustive<Space, Rule, Count>(instance);
  const Solution solution = planner.solve(instance);
  REQUIRE(solution.feasible == std::isfinite(truth.best));
  CHECK(solution.proven_optimal);
  if (!solution.feasible) {
    CHECK(solution.binding == (truth.fits ? Binding::slo : Binding::device_memory));
    CHECK(solution.window == 0);
    return;
  }
  CHECK(solution.step_s == doctest::Approx(truth.best).epsilon(1e-9));
  CHECK(solution.lower_bound_s <= truth.best * (1 + 1e-9));
  CHECK(solution.next_best_s >= solution.step_s);
  CHECK(solution.window >= instance.window_min);
  CHECK(solution.window <= instance.window_max);

  // The plan's figures, checked by another object.
  PlacementEvaluator evaluator{transfer_rule_of<Rule, Count>};
  const PlacementCost cost = evaluator.cost(instance, solution.offloaded);
  CHECK(cost.fits);
  CHECK(cost.step.step_s == solution.step_s);
  CHECK(cost.resident_blocks + cost.buffer_blocks <= static_cast<double>(instance.device_blocks.count()) * (1 + 1e-9));
  CHECK(evaluator.hold(instance, solution.offloaded, cost).window == solution.window);

  // Again by a planner that has solved other instances: the same plan. From any hint: the same cost.
  Planner fresh{candidate_space_of<Space>, search_rule_of<Rule, Count>};
  CHECK(fresh.solve(instance).offloaded == solution.offloaded);
  std::vector<LayerSet> candidates;
  Space::candidates(instance.movable(), candidates);
  std::vector<LayerSet> start;
  for (std::size_t r = 0; r < instance.requests.size(); ++r)
    start.push_back(candidates[random.below(candidates.size())]);
  CHECK(fresh.solve(instance, {start}).step_s == doctest::Approx(truth.best).epsilon(1e-9));

  // Stopped early, all its statements are true.
  Instance hurried = instance;
  hurried.node_limit = static_cast<std::int64_t>(random.below(60));
  const Solution& early = fresh.solve(hurried);
  CHECK(early.lower_bound_s <= truth.best * (1 + 1e-9));
  if (early.feasible) CHECK(early.step_s >= truth.best * (1 - 1e-9));
  if (early.feasible && early.proven_optimal) CHECK(early.step_s == doctest::Approx(truth.best).epsilon(1e-9));
}

template <class Space, class Rule, class Count>
void compare_many(int instances, std::uint64_t seed, int most_requests = 4, int most_layers = 12) {
  Random random{seed};
  Planner planner{candidate_space_of<Space>, search_rule_of<Rule, Count>};
  for (int i = 0; i < instances; ++i) {
    INFO(Space::name << ", " << Rule::name << ", " << Count::name << ", instance " << i);
    compare<Space, Rule, Count>(planner, random_instance(random, i % 2 == 1, most_requests, most_layers), random);
  }
}

TEST_CASE("the planner equals exhaustive search: distance space, 1000 instances under each rule") {
  compare_many<DistanceSpace, DeadlinePool, HeldBuffer>(1000, 1);
  compare_many<DistanceSpace, FairShare, HeldBuffer>(1000, 1);
  compare_many<DistanceSpace, EarliestDeadlineFirst, HeldBuffer>(1000, 1);
  compare_many<DistanceSpace, NextLayer, HeldBuffer>(1000, 1);
}

TEST_CASE("the planner equals exhaustive search: even space, 1000 instances under each rule") {
  compare_many<EvenSpace, DeadlinePool, HeldBuffer>(1000, 2);
  compare_many<EvenSpace, FairShare, HeldBuffer>(1000, 2);
  compare_many<EvenSpace, EarliestDeadlineFirst, HeldBuffer>(1000, 2);
  compare_many<EvenSpace, NextLayer, HeldBuffer>(1000, 2);
}

TEST_CASE("the planner equals exhaustive search: the paper's buffer count, and small free spaces") {
  compare_many<DistanceSpace, FairShare, PaperBuffer>(80, 9, 3);
  compare_many<DistanceSpace, EarliestDeadlineFirst, PaperBuffer>(80, 10, 3);
  compare_many<DistanceSpace, NextLayer, PaperBuffer>(80, 11, 3);
  compare_many<DistanceSpace, DeadlinePool, PaperBuffer>(80, 12, 3);
  compare_many<FreeSpace, DeadlinePool, HeldBuffer>(60, 13, 2, 5);
  compare_many<FreeSpace, FairShare, HeldBuffer>(60, 14, 2, 5);
}

/// A user's own rule: a layer is fetched when its turn comes, and nothing overlaps.
struct FetchThenCompute {
  using role = roles::Transfer;
  static constexpr std::string_view name = "fetch-then-compute";
  static constexpr bool needs_room = false;
  struct State {
    double background_blocks = 0;
    std::vector<double> scratch;
    void clear() { background_blocks = 0; }
  };
  static double held_blocks(std::span<const double> loads, std::span<const LayerStream> /*streams*/) {
    return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
  }
  template <class Sink = NoTimeline>
  static StepCost evaluate(const Pipeline& pipeline, State& state, Sink&& sink = Sink{}) {
    LayerArray loads;
    detail::layer_loads(pipeline, loads);
    state.scratch.assign(loads.begin(), loads.begin() + pipeline.layers());
    if (!pipeline.weights.empty())
      pipeline.weights.layers.for_each(
          [&](int layer) { state.scratch[static_cast<std::size_t>(layer)] += pipeline.weights.blocks; });
    StepCost cost{pipeline.compute_total_s()};
    double time = pipeline.before_s;
    for (std::size_t l = 0; l < state.scratch.size(); ++l) {
      const double wait_s =
          state.scratch[l] > 0 ? state.scratch[l] / pipeline.link.blocks_per_s + pipeline.link.per_layer_s : 0;
      cost.stall_s += wait_s;
      time += wait_s + pipeline.compute_s[l];
      if constexpr (std::remove_reference_t<Sink>::enabled)
        sink.layer(static_cast<int>(l), time - pipeline.compute_s[l], time, wait_s, StallCause::room);
    }
    cost.step_s += cost.stall_s;
    cost.link_s = cost.stall_s;
    return cost;
  }
};
static_assert(explain<FetchThenCompute>());

TEST_CASE("the planner equals exhaustive search: under a user's own rule, through its table") {
  compare_many<DistanceSpace, FetchThenCompute, HeldBuffer>(300, 21);
  compare_many<EvenSpace, FetchThenCompute, HeldBuffer>(200, 22, 3, 9);
  compare_many<DistanceSpace, FetchThenCompute, PaperBuffer>(100, 23, 3);
}

TEST_CASE("a copied planner uses its own memory and finds the same plan") {
  Random random{31};
  ExactSearch<DistanceSpace, FairShare> planner;
  Planner assigned{candidate_space_of<EvenSpace>, search_rule_of<DeadlinePool>};
  for (int i = 0; i < 40; ++i) {
    const Instance instance = random_instance(random, i % 2 == 1, 3, 8);
    const Solution first = planner.solve(instance);
    ExactSearch<DistanceSpace, FairShare> copy = planner;
    assigned = planner; // its space and rule too
    Planner moved = std::move(copy);
    for (Planner* other : {&assigned, &moved}) {
      CHECK(other->solution().step_s == first.step_s);
      const Solution& again = other->solve(instance);
      CHECK(again.offloaded == first.offloaded);
      CHECK(again.step_s == first.step_s);
      CHECK(again.nodes == first.nodes);
    }
  }
}

TEST_CASE("OrbitFlow's worked example at step 16: 8 block times in the distance space, 6 in the even one") {
  Instance instance;
  instance.layer_compute_s.assign(9, 1.0);
  instance.link_blocks_per_s = 3;
  instance.device_blocks = LayerBlocks{70};
  instance.requests.resize(2);
  instance.requests[0].blocks = LayerBlocks{4};
  instance.requests[1].blocks = LayerBlocks{6};
  ExactSearch<DistanceSpace, DeadlinePool> distance;
  ExactSearch<EvenSpace, DeadlinePool> even;
  CHECK(distance.solve(instance).stall_s * 3 == doctest::Approx(8));
  CHECK(even.solve(instance).stall_s * 3 == doctest::Approx(6));
  CHECK(even.solve(instance).proven_optimal);
}

TEST_CASE("a window is the longest for which memory holds while KV grows by a token per step") {
  Instance instance;
  instance.layer_compute_s.assign(9, 1.0);
  instance.link_blocks_per_s = 3;
  instance.device_blocks = LayerBlocks{70};
  instance.requests.resize(2);
  instance.requests[0].tokens = Tokens{33}; // 3 blocks until 48 tokens: 16 steps
  instance.requests[1].tokens = Tokens{81}; // 6 blocks throughout
  instance.window_max = 20;
  // The shortest step is the compute without stalls, and needs all of request 1 resident, until it needs another block.
  ExactSearch<DistanceSpace, DeadlinePool> planner;
  const Solution& solution = planner.solve(instance);
  REQUIRE(solution.feasible);
  CHECK(solution.step_s == 9);
  PlacementEvaluator evaluator{transfer_rule_of<DeadlinePool>};
  const PlacementCost last = evaluator.cost(instance, solution.offloaded, solution.window - 1);
  CHECK(last.fits);
  if (solution.window < 20) CHECK(!evaluator.cost(instance, solution.offloaded, solution.window).fits);
  const std::vector<LayerSet> none_and_thirds{{}, every_kth_layer(9, 3)};
  CHECK(evaluator.hold(instance, none_and_thirds, evaluator.cost(instance, none_and_thirds)).window == 16);
}

TEST_CASE("deposits carry a plan through steps that are too slow") {
  Instance instance;
  instance.layer_compute_s.assign(4, 1.0);
  instance.link_blocks_per_s = 1;
  instance.device_blocks = LayerBlocks{1000};
  instance.requests.resize(1);
  instance.requests[0].blocks = LayerBlocks{10};
  instance.requests[0].slo_s = 3; // the compute takes 4
  instance.alpha = 0;
  ExactSearch<DistanceSpace, DeadlinePool> planner;
  CHECK(planner.solve(instance).binding == Binding::slo);
  instance.requests[0].deposit = 1; // 2 tokens by second 4, 4/3 due; 3 by second 8, 8/3 due; 4 by 12, 4 due; then short
  instance.window_max = 10;
  CHECK(planner.solve(instance).window == 3);
  instance.alpha = 1; // one request may miss every step
  instance.requests[0].deposit = 0;
  CHECK(planner.solve(instance).window == 10);
  instance.paused_without_deposit = 1;
  CHECK(!planner.solve(instance).feasible);
}

TEST_CASE("everything fits: 256 requests at once, nothing offloaded, proven") {
  Instance instance;
  instance.layer_compute_s.assign(80, 1.0);
  instance.link_blocks_per_s = 1;
  instance.requests.resize(256);
  for (InstanceRequest& request : instance.requests) request.blocks = LayerBlocks{10};
  instance.device_blocks = LayerBlocks{256 * 10 * 80};
  ExactSearch<EvenSpace, DeadlinePool> planner;
  const Solution& solution = planner.solve(instance);
  CHECK(solution.proven_optimal);
  CHECK(solution.step_s == 80);
  CHECK(solution.nodes == 0);
  for (const LayerSet& set : solution.offloaded) CHECK(set.empty());
}

} // namespace
} // namespace sluice::test

// SPDX-License-Identifier: Apache-2.0
// PlacementEvaluator: a window step by step from its definition, and the same cost with and without a timeline.
#include "sluice/policy/placement/solver/placement_evaluator.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"
#include "sluice/state/plan/space.hpp"

#include "policy/placement/solver/random_instance.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace sluice::test {
namespace {

/// The window by definition: every step evaluated, every miss counted, nothing inferred from another step.
template <class Rule>
WindowCheck step_by_step(const Instance& instance, const std::vector<LayerSet>& sets) {
  PlacementEvaluator evaluator{transfer_rule_of<Rule>};
  WindowCheck result{0, Binding::slo};
  double elapsed_s = 0;
  double misses = 0;
  for (int t = 1; t <= instance.window_max; ++t) {
    const PlacementCost cost = evaluator.cost(instance, sets, t - 1);
    if (!cost.fits) {
      if (t <= instance.window_min) result.binding = Binding::device_memory;
      break;
    }
    elapsed_s += cost.step.step_s;
    misses += instance.paused_without_deposit;
    for (const InstanceRequest& request : instance.requests)
      if (std::isfinite(request.slo_s) && static_cast<double>(request.deposit + t) < elapsed_s / request.slo_s - 1e-9)
        misses += 1;
    const bool holds = !instance.has_slo() || misses <= instance.alpha * t + 1e-9;
    if (t >= instance.window_min && holds) result = {t, Binding::none};
  }
  if (result.window > 0) result.binding = Binding::none;
  return result;
}

std::vector<LayerSet> random_sets(const Instance& instance, Random& random, bool uniform) {
  std::vector<LayerSet> candidates;
  EvenSpace::candidates(instance.movable(), candidates);
  std::vector<LayerSet> sets(instance.requests.size(), candidates[random.below(candidates.size())]);
  for (LayerSet& set : sets)
    if (!uniform) set = candidates[random.below(candidates.size())];
  return sets;
}

template <class Rule>
void check_windows(std::uint64_t seed) {
  Random random{seed};
  PlacementEvaluator evaluator{transfer_rule_of<Rule>};
  int held = 0;
  int short_of_memory = 0;
  int too_slow = 0;
  for (int i = 0; i < 3000; ++i) {
    INFO(Rule::name << ", instance " << i);
    Instance instance = random_instance(random, i % 2 == 1);
    instance.window_max = 1 + static_cast<int>(random.below(40));
    instance.window_min = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(instance.window_max)));
    const bool grows = random.below(2) == 0;
    for (InstanceRequest& request : instance.requests)
      if (grows) request.tokens = Tokens{1 + static_cast<std::int64_t>(random.below(300))};
    instance.block_tokens = Tokens{1 + static_cast<std::int64_t>(random.below(32))};
    const std::vector<LayerSet> sets = random_sets(instance, random, i % 3 == 0);
    const PlacementCost first = evaluator.cost(instance, sets);
    const WindowCheck expected = step_by_step<Rule>(instance, sets);
    const WindowCheck found = evaluator.hold(instance, sets, first);
    CHECK(found.window == expected.window);
    CHECK(found.binding == expected.binding);
    held += found.window > 0;
    short_of_memory += found.binding == Binding::device_memory;
    too_slow += found.binding == Binding::slo;
  }
  CHECK(held > 200); // otherwise the test would check little
  CHECK(short_of_memory > 200);
  CHECK(too_slow > 100);
}

/// Stores nothing, and declares every event.
struct Recorder {
  static constexpr bool enabled = true;
  int layers = 0;
  void layer(int, double, double, double, StallCause) { ++layers; }
  void transfer(int, int, double, double) {}
};

template <class Rule>
void check_explained(std::uint64_t seed) {
  Random random{seed};
  PlacementEvaluator evaluator{transfer_rule_of<Rule>};
  for (int i = 0; i < 2000; ++i) {
    INFO(Rule::name << ", instance " << i);
    const Instance instance = random_instance(random, false);
    const std::vector<LayerSet> sets = random_sets(instance, random, i % 2 == 0);
    const PlacementCost plain = evaluator.cost(instance, sets);
    Recorder recorder;
    const PlacementCost told = evaluator.explain<Rule>(instance, sets, recorder);
    CHECK(plain.fits == told.fits);
    if (!std::isfinite(plain.step.step_s)) continue;
    CHECK(recorder.layers == instance.layers());
    CHECK(plain.step.step_s == doctest::Approx(told.step.step_s).epsilon(1e-12));
    CHECK(plain.step.stall_s == doctest::Approx(told.step.stall_s).epsilon(1e-9));
  }
}

} // namespace

TEST_CASE("a window matches its definition, step by step") {
  check_windows<DeadlinePool>(61);
  check_windows<FairShare>(62);
  check_windows<EarliestDeadlineFirst>(63);
  check_windows<NextLayer>(64);
}

TEST_CASE("a placement costs the same with and without a timeline") {
  check_explained<DeadlinePool>(71);
  check_explained<FairShare>(72);
  check_explained<EarliestDeadlineFirst>(73);
  check_explained<NextLayer>(74);
}

} // namespace sluice::test

// SPDX-License-Identifier: Apache-2.0
// WorthJoining: which newcomers join, against a batch that is decoded token by token.
#include "sluice/policy/placement/worth_joining.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Places anything, so that only WorthJoining decides. The step is as long as the scene says.
struct Anything {
  using role = roles::Placement;
  [[maybe_unused]] static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {};
  double step_s = 0;
  [[nodiscard]] Holding least(int layers) const { return {all_tokens, LayerSet::all(layers), {}}; }
  template <class Task, class S>
  Verdict solve(const Task& task, S&, Plan& plan) const {
    plan.predicted_step = Seconds{step_s};
    return {true, task.claims.size() - task.required, Binding::none};
  }
};
using Alone = BasicWorthJoining<Anything>;
static_assert(Placement<Alone> && Placement<WorthJoining>);
using PooledTask = PlacementTask<PlainCost, DeadlinePool, PerLayer>;

struct CrowdedDevice {
  HandMade made;
  std::vector<Claim> claims;
  std::size_t required = 0;
  LayerBlocks device{0};
  PlainCost cost;

  void add(Tokens prompt, Tokens generated, bool runs, double waited_s, Seconds ttft, Seconds tbt) {
    const Slot slot = runs ? made.decoding(prompt, generated, Tokens{500})
                           : made.add(prompt, Tokens{500}, Tokens{0}, Tokens{0}, Phase::waiting);
    RequestRow& row = made.rows[index(slot)];
    row.spec.arrival = made.now - Seconds{waited_s};
    row.spec.slo = {.ttft = ttft, .tbt = tbt};
    claims.push_back({slot, row.pending(), row.pending(), runs});
    required += runs;
  }
  [[nodiscard]] PooledTask task(const View& view) const {
    return {view, claims, required, device, LayerBlocks{1 << 20}, cost, Window{1, 64}};
  }
};

/// What the class comment says, decoded token by token until all have ended: is each step worth it?
bool worth_it_to_the_end(const CrowdedDevice& scene, const View& view, std::size_t count,
                         const std::map<std::uint32_t, int>& left, double worth, int tokens_ahead, bool late) {
  double slo = 1e9;
  for (std::size_t i = 0; i < count; ++i) slo = std::min(slo, view.row(scene.claims[i].slot).spec.slo.tbt.count());
  const int from = late ? 0 : tokens_ahead, to = late ? 1100 : tokens_ahead;
  for (int t = from; t <= to; ++t) {
    double n = 0, tokens = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t slot = index(scene.claims[i].slot);
      if (late && left.at(slot) < t) continue;
      n += 1;
      tokens += static_cast<double>(view.rows[slot].context().count()) + 8 + t;
    }
    if (n == 0) break;
    const double layers = view.geometry.layers;
    const double computed = 2e-4 + layers * (1e-3 + 1e-6 * std::floor(tokens));
    if (computed > slo) return false;
    const double over = layers * tokens / 16 - static_cast<double>(scene.device.count());
    if (over <= 0) continue;
    const double fetch = (over + 2 * tokens / 16) * 4096 / 4e7 + layers * 1e-6;
    if (fetch > std::max(computed, std::min(slo, computed * (1 + worth / n)))) return false;
  }
  return true;
}

} // namespace

TEST_CASE("newcomers join as long as every step to the end is worth it") {
  Random random(8);
  int all = 0, some = 0, in_time = 0, late = 0;
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    CrowdedDevice scene;
    for (std::int64_t i = between(random, 0, 30); i > 0; --i) scene.made.lengths.learn(Tokens{between(random, 2, 400)});
    const Seconds tbt{0.02 + 0.1 * random.uniform()};
    for (std::int64_t i = between(random, 0, 4); i > 0; --i)
      scene.add(Tokens{between(random, 1, 300)}, Tokens{between(random, 1, 60)}, true, 10, Seconds{5}, tbt);
    for (std::int64_t i = between(random, 1, 5); i > 0; --i)
      scene.add(Tokens{between(random, 1, 300)}, Tokens{0}, false, 10 * random.uniform(), Seconds{5}, tbt);
    scene.device = LayerBlocks{8 * between(random, 10, 90)};
    const View view = scene.made.view();
    const Alone policy;
    Alone::State<DeadlinePool> state;
    Plan plan;
    const Verdict verdict = policy.solve(scene.task(view), state, plan);
    std::map<std::uint32_t, int> left; // tokens that each is expected to generate
    for (const Claim& claim : scene.claims) {
      const RequestRow& row = view.row(claim.slot);
      const double share = 2 * Random(1 + 0x9e3779b97f4a7c15u * (index(row.id) + 1)).uniform();
      const double quantile = std::min(1.0, std::max(0.01, share * policy.quantile));
      left[index(claim.slot)] = static_cast<int>(view.lengths->remaining(
          row.generated, quantile, 5, std::max(16.0, 1024.0 - static_cast<double>(row.generated.count()))));
    }
    std::size_t joins = scene.required;
    for (; joins < scene.claims.size(); ++joins) {
      if (joins == 0) continue; // one alone always may
      const RequestRow& row = view.row(scene.claims[joins].slot);
      const bool is_late = view.now > row.spec.arrival + row.spec.slo.ttft;
      ++(is_late ? late : in_time);
      if (!worth_it_to_the_end(scene, view, joins + 1, left, policy.step.worth, 16, is_late)) break;
    }
    REQUIRE(verdict.feasible);
    CHECK(verdict.joined == joins - scene.required);
    ++(joins == scene.claims.size() ? all : some);
  }
  CHECK(all > 100);
  CHECK(some > 100);
  CHECK(in_time > 100);
  CHECK(late > 100);
}

TEST_CASE("a pressing claim that is not worth it has no plan; an optional one just does not join") {
  for (const bool presses : {true, false}) {
    CrowdedDevice scene;
    scene.add(Tokens{200}, Tokens{5}, true, 1, Seconds{5}, Seconds{0.05});
    scene.add(Tokens{200}, Tokens{0}, false, 1, Seconds{5}, Seconds{0.05});
    scene.device = LayerBlocks{8 * 2};
    if (presses) {
      scene.claims.back().required = true;
      scene.claims.back().at_cost_of = scene.claims.front().slot;
      ++scene.required;
    }
    const View view = scene.made.view();
    Alone::State<DeadlinePool> state;
    Plan plan;
    const Verdict verdict = Alone{}.solve(scene.task(view), state, plan);
    CHECK(verdict.feasible == !presses);
    CHECK(verdict.joined == 0);
  }
}

TEST_CASE("a batch whose own step is not worth it has no plan, unless one request is left") {
  for (const int requests : {1, 2, 3}) {
    CrowdedDevice scene;
    for (int i = 0; i < requests; ++i) scene.add(Tokens{100}, Tokens{5}, true, 1, Seconds{5}, Seconds{0.05});
    scene.device = LayerBlocks{8 * 100};
    const View view = scene.made.view();
    const PooledTask task = scene.task(view);
    const double computed = scene.cost.step(task.steady_decode(scene.claims.size())).total(8).count();
    for (const double longer : {0.9, 1.1}) {
      Alone policy;
      policy.places.step_s = longer * std::min(0.05, computed * (1 + policy.step.worth / requests));
      Alone::State<DeadlinePool> state;
      Plan plan;
      CHECK(policy.solve(task, state, plan).feasible == (requests == 1 || longer < 1));
    }
  }
}

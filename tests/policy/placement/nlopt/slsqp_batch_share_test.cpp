// SPDX-License-Identifier: Apache-2.0
// SlsqpBatchShare: within 1 % of an exhaustive search of (b, r), on random instances and on synthetic functions.
#include "sluice/policy/placement/nlopt/slsqp_batch_share.hpp"
#include "sluice/policy/placement/token_wise.hpp"
#include "sluice/policy/replan/every_step.hpp"

#include "engine/trials.hpp"
#include "policy/placement/uncached_scenes.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace sluice;
using namespace sluice::testing;

namespace {

using TokenWiseSlsqp = Engine<BasicTokenWise<SlsqpBatchShare>, EveryStep>;
SLUICE_CONSERVES(TokenWiseSlsqp)

/// A time that no cost model has: fixed, per request, and a power of the uncached share.
struct MadeUp {
  double fixed, each, share, power, slo_s, per_request, workspace;
  double room_budget, host_budget = 1e18, most_share = 1;
  std::int64_t least, most;
  double seconds(double b, double r) const { return std::max(fixed, each * b) + share * std::pow(r, power) * b; }
  double room(double b, double r) const { return per_request * b * (1 - (1 - workspace) * r); }
  double host_room(double b, double r) const { return b * r; }
  double limit_s(double) const { return slo_s; }
};

/// The fraction of the best rate that is found; 1 if none exists and none is found.
template <class Problem>
double reached(const Problem& problem, const BatchShare& found) {
  const BatchShare best = best_on_grid(problem, 500);
  if (!best.feasible) return found.feasible ? 2.0 : 1.0;
  if (!found.feasible) return 0.0;
  const auto b = static_cast<double>(found.requests);
  CHECK(found.requests >= std::max<std::int64_t>(1, problem.least));
  CHECK(found.requests <= problem.most);
  CHECK(problem.room(b, found.uncached) <= problem.room_budget * (1 + 1e-9));
  CHECK(problem.host_room(b, found.uncached) <= problem.host_budget * (1 + 1e-9));
  CHECK(problem.seconds(b, found.uncached) <= problem.limit_s(b) * (1 + 1e-9));
  return found.rate() / best.rate();
}

} // namespace

TEST_CASE("SLSQP comes within 1 % of the exhaustive search on placement tasks") {
  Random random(41);
  double worst = 1;
  for (int round = 0; round < 300; ++round) {
    const UncachedScene scene = random_scene(random, 48);
    const auto task = scene.task();
    const UncachedSums sums = sums_of(task);
    const UncachedLayers layers = random_layers(random);
    const UncachedProblem problem(task, sums, layers, layers.pair, 1.0);
    CAPTURE(round);
    const double share = reached(problem, SlsqpBatchShare{}(problem));
    CHECK(share >= 0.99);
    worst = std::min(worst, share);
  }
  MESSAGE("worst of 300: ", worst);
}

TEST_CASE("SLSQP comes within 1 % of the exhaustive search on made-up functions") {
  Random random(42);
  double worst = 1;
  int uncached = 0;
  for (int round = 0; round < 300; ++round) {
    MadeUp problem{};
    problem.fixed = 0.01 + 0.04 * random.uniform();
    problem.each = 0.0005 * random.uniform();
    problem.share = 0.003 * random.uniform();
    problem.power = 1 + random.uniform();
    problem.slo_s = 0.03 + 0.1 * random.uniform();
    problem.per_request = 10;
    problem.workspace = 0.5 * random.uniform();
    problem.most = between(random, 2, 120);
    problem.least = between(random, 0, problem.most / 3);
    problem.room_budget = 10 * (0.2 + random.uniform()) * static_cast<double>(problem.most);
    CAPTURE(round);
    const BatchShare found = SlsqpBatchShare{}(problem);
    const double share = reached(problem, found);
    CHECK(share >= 0.99);
    worst = std::min(worst, share);
    uncached += found.uncached > 0 ? 1 : 0;
  }
  CHECK(uncached > 50);
  MESSAGE("worst of 300: ", worst, "; with an uncached share: ", uncached);
}

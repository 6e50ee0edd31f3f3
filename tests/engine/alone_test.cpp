// SPDX-License-Identifier: Apache-2.0
// A full host: a request that fits alone is served whatever KV others keep there, and no iteration takes more than
// there is.
#include "sluice/core/random.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/relief/preempt_where_short.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/move_to_host.hpp"
#include "sluice/report/observer/summary.hpp"

#include "engine/trials.hpp"
#include "support/all_on_host.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// All KV on the host, and preempted requests keep it there.
using Crowded = Engine<AllOnHost, EveryStep, PreemptWhereShort, MoveToHost>;

/// A few short requests, a host for the longest of them and at most one block more, and a device for all of its KV.
Trial crowded_trial(Random& random) {
  const auto draw = [&random](std::uint64_t below) { return static_cast<std::int64_t>(random.below(below)); };
  Trial trial{.layers = 3 + static_cast<int>(draw(4)),
              .batch = 1 + static_cast<int>(draw(5)),
              .device = {},
              .host = {},
              .requests = {}};
  double now = 0;
  std::int64_t longest = 0;
  for (std::int64_t i = 2 + draw(5); i > 0; --i) {
    now += random.below(2) == 0 ? 0 : 0.05 * random.uniform();
    RequestSpec spec;
    spec.arrival = Seconds{now};
    spec.prompt = Tokens{1 + draw(30)};
    spec.output = Tokens{1 + draw(14)};
    longest = std::max(longest, blocks_for(spec.prompt + spec.output - Tokens{1}, Tokens{4}).count());
    trial.requests.push_back(spec);
  }
  trial.host = LayerBlocks{(longest + draw(2)) * trial.layers};
  trial.device = LayerBlocks{(longest + 4) * trial.layers};
  return trial;
}

/// Serves random crowded trials under `System`. Returns how often requests were preempted.
template <class System>
std::int64_t serve_crowded(int rounds) {
  using E = With<System, SmallCost, BasicSimulated<SmallCost>, Summary>;
  Random random(1);
  std::int64_t preempted = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const Trial trial = crowded_trial(random);
    SmallCost world;
    world.rate = BytesPerSecond{5e5 * std::pow(1000, random.uniform())};
    typename E::Config config = trial_config<E>(trial, world);
    config.limits.block_tokens = Tokens{4};
    config.limits.batch_tokens = Tokens{8 + static_cast<std::int64_t>(random.below(40))};
    auto made = E::make(std::move(config));
    REQUIRE(made);
    E& engine = *made;
    serve_to_end(engine, trial);
    const auto& records = engine.template observed<Summary>().requests;
    CHECK(records.size() == trial.requests.size());
    for (const RequestRecord& record : records) {
      CHECK(record.outcome == Outcome::served);
      preempted += record.times_preempted;
    }
  }
  return preempted;
}

/// Each plan takes longer than an iteration, so iterations are repeated meanwhile.
struct SlowAhead : OneStepAhead {
  [[nodiscard]] Seconds planning_time(std::int64_t /*effort*/) const { return Seconds{100}; }
};

} // namespace

TEST_CASE("a request that fits alone is never refused for what others keep on the host") {
  CHECK(serve_crowded<Crowded>(all_rounds ? 500 : 50) > 0);
}

TEST_CASE("an iteration is repeated only while both memories have room") {
  CHECK(serve_crowded<With<Crowded, SlowAhead>>(all_rounds ? 500 : 50) > 0);
}

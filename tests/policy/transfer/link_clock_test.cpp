// SPDX-License-Identifier: Apache-2.0
// LinkClock: rates that change while an iteration runs, under every rule.
#include "sluice/policy/transfer/evaluate_link.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include "policy/transfer/random_pipeline.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<LinkSpell> random_spells(Random& random, double until_s) {
  std::vector<LinkSpell> spells;
  double from_s = random.below(2) == 0 ? 0 : random.uniform() * until_s / 4;
  while (from_s < until_s) {
    spells.push_back({from_s, random.below(3) == 0 ? 1.0 : 0.1 + 0.9 * random.uniform()});
    from_s += random.uniform() * until_s / 3;
  }
  return spells;
}

/// When the lane is busy, as reported.
struct LinkTold {
  static constexpr bool enabled = true;
  std::vector<std::pair<double, double>> spells;
  void layer(int, double, double, double, StallCause) {}
  void transfer(int, int, double, double) {}
  void link(double begin_s, double end_s) { spells.emplace_back(begin_s, end_s); }

  /// Link time in the union of the reported spells.
  double link_time(const LinkClock& clock) {
    std::sort(spells.begin(), spells.end());
    double sum = 0;
    double until_s = 0;
    for (const auto& [begin_s, end_s] : spells) {
      if (end_s <= until_s) continue;
      sum += clock.link_time(end_s) - clock.link_time(std::max(begin_s, until_s));
      until_s = end_s;
    }
    return sum;
  }
};

} // namespace

TEST_CASE("the two clocks are inverse, and moved work adds up over the spells") {
  Random random{7};
  for (int trial = 0; trial < 2000; ++trial) {
    const std::vector<LinkSpell> spells = random_spells(random, 10);
    LinkClock clock;
    clock.spells = spells;
    if (random.below(2) == 0) {
      clock.slow_until_s = 5 * random.uniform();
      clock.loss = 0.5 * random.uniform();
    }
    double before = -1;
    for (double seconds = 0; seconds < 15; seconds += 0.37) {
      const double link_s = clock.link_time(seconds);
      CHECK(clock.seconds(link_s) == doctest::Approx(seconds).epsilon(1e-12));
      CHECK(link_s > before);
      before = link_s;
      // Against a sum in small steps.
      if (trial < 20) {
        double sum = 0;
        const int parts = 20'000;
        for (int i = 0; i < parts; ++i) {
          const double at = seconds * (i + 0.5) / parts;
          double rate = at < clock.slow_until_s ? 1 - clock.loss : 1;
          double share = 1;
          for (const LinkSpell& spell : spells)
            if (spell.from_s <= at) share = spell.share;
          sum += rate * share * seconds / parts;
        }
        CHECK(link_s == doctest::Approx(sum).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("on a shared bus, every rule agrees with a plain event simulation") {
  Random random{20261121};
  for (int trial = 0; trial < 1500; ++trial) {
    RandomPipeline input{random};
    const std::vector<double> loads = input.loads();
    const double worst = DeadlinePool::held_blocks(loads, {});
    const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
    input.pipeline.room_blocks = worst + random.uniform() * (random.below(2) == 0 ? worst : total);
    const std::vector<LinkSpell> spells = random_spells(random, 60);
    input.pipeline.clock.spells = spells;
    for_each_rule(AllRules{}, [&]<class Rule>() {
      const std::vector<double> expected = reference_run(input.pipeline, reference_of<Rule>(), 3);
      INFO("trial " << trial << " rule " << Rule::name);
      REQUIRE(expected.size() == 3);
      typename Rule::State state;
      double start_s = 0;
      for (std::size_t i = 0; i < 3; ++i) {
        std::vector<LinkSpell> from_here = spells;
        for (LinkSpell& spell : from_here) spell.from_s -= start_s;
        Pipeline pipeline = input.pipeline;
        pipeline.clock.spells = from_here;
        if (i > 0) pipeline.urgent_blocks = pipeline.first_blocks = 0;
        start_s += evaluate_link<Rule>(pipeline, state).step_s;
        INFO("iteration " << i + 1);
        CHECK(start_s == doctest::Approx(expected[i]).epsilon(1e-8));
      }
    });
  }
}

TEST_CASE("the lane's reported spells last as long as it is busy, within the iteration") {
  Random random{99};
  for (int trial = 0; trial < 1500; ++trial) {
    RandomPipeline input{random};
    const std::vector<double> loads = input.loads();
    const double worst = DeadlinePool::held_blocks(loads, {});
    const bool roomy = random.below(2) == 0;
    input.pipeline.room_blocks = roomy ? 1e6 : worst * (1 + random.uniform());
    const bool weights_wait = !input.pipeline.weights.empty();
    const std::vector<LinkSpell> spells = random_spells(random, 40);
    input.pipeline.clock.spells = spells;
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      // From a cold start, an iteration and the work that it leaves: the link work of both together is known.
      typename Rule::State state;
      LinkTold told;
      const double step_s = evaluate_link<Rule>(input.pipeline, state, told).step_s;
      for (const auto& [begin_s, end_s] : told.spells) {
        CHECK(begin_s >= 0);
        CHECK(end_s <= step_s * (1 + 1e-12));
      }
      // The next token's transfers are unknown, so at least this token's work.
      double work_s = detail::urgent(input.pipeline) / input.pipeline.link.blocks_per_s;
      for (std::size_t l = 0; l < loads.size(); ++l) {
        double blocks = loads[l];
        if (input.pipeline.weights.layers.contains(static_cast<int>(l))) blocks += input.pipeline.weights.blocks;
        if (blocks > 0) work_s += blocks / input.pipeline.link.blocks_per_s + input.pipeline.link.per_layer_s;
      }
      const double told_s = told.link_time(input.pipeline.clock);
      CHECK(told_s >= std::min(work_s, input.pipeline.clock.link_time(step_s)) * (1 - 1e-9));
      CHECK(told_s <= input.pipeline.clock.link_time(step_s) * (1 + 1e-9));
      // Exactly, if nothing waits within a spell: the second iteration then needs that much less.
      if (roomy && !weights_wait && input.pipeline.urgent_blocks == 0 && std::is_same_v<Rule, EarliestDeadlineFirst>) {
        double ahead_s = 0;
        if constexpr (std::is_same_v<Rule, EarliestDeadlineFirst>)
          for (std::size_t l = 0; l < loads.size(); ++l) ahead_s += state.ahead_link_s[l];
        CHECK(told_s == doctest::Approx(work_s + ahead_s).epsilon(1e-9));
      }
    });
  }
}

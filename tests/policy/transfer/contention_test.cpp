// SPDX-License-Identifier: Apache-2.0
// All-reduces on the link that transfers use: `contended` against an independent simulation.
#include "sluice/policy/transfer/evaluate_link.hpp"

#include "policy/transfer/random_pipeline.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <type_traits>
#include <vector>

namespace sluice::test {
namespace {

/// A random iteration whose computation uses the link for a share of its time; room for `DeadlinePool`.
struct OnLink : RandomPipeline {
  explicit OnLink(Random& random) : RandomPipeline(random) {
    const std::vector<double> sums = loads();
    const double worst = DeadlinePool::held_blocks(sums, {});
    const double total = std::accumulate(sums.begin(), sums.end(), 0.0);
    pipeline.room_blocks = worst + random.uniform() * (random.below(2) == 0 ? worst : total);
    pipeline.on_link = 0.05 + 0.7 * random.uniform();
  }
  /// Nothing crosses the link.
  void stop_transfers() {
    pipeline.streams = {};
    pipeline.weights = {};
    pipeline.urgent_blocks = pipeline.first_blocks = 0;
  }
};

template <class Rule>
std::vector<double> ends_beside(const Pipeline& pipeline, int iterations) {
  typename Rule::State state;
  std::vector<double> ends;
  Pipeline later = pipeline;
  for (int i = 0; i < iterations; ++i) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + evaluate_link<Rule>(later, state).step_s);
    later.urgent_blocks = later.first_blocks = 0;
  }
  return ends;
}

TEST_CASE("all-reduces on the link: every rule agrees with an event simulation in which each side gets half of it") {
  Random random{20261};
  const ReferenceReduces spread{0}, fine{64}, halves{2};
  double off_fine = 0, off_halves = 0, lost = 0;
  int compared = 0;
  for (int trial = 0; trial < 400; ++trial) {
    OnLink input{random};
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      const std::vector<double> got = ends_beside<Rule>(input.pipeline, 3);
      const std::vector<double> expected = reference_run(input.pipeline, reference_of<Rule>(), 3, nullptr, &spread);
      REQUIRE(expected.size() == 3);
      for (std::size_t i = 0; i < 3; ++i) {
        INFO("iteration " << i + 1);
        CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-8));
      }
      const std::vector<double> pieces = reference_run(input.pipeline, reference_of<Rule>(), 3, nullptr, &fine);
      const std::vector<double> coarse = reference_run(input.pipeline, reference_of<Rule>(), 3, nullptr, &halves);
      const std::vector<double> alone = reference_run(input.pipeline, reference_of<Rule>(), 3);
      REQUIRE(pieces.size() == 3);
      REQUIRE(coarse.size() == 3);
      off_fine += std::abs(pieces[2] - got[2]) / got[2];
      off_halves += std::abs(coarse[2] - got[2]) / got[2];
      lost += (got[2] - alone[2]) / alone[2];
      ++compared;
    });
  }
  // All-reduces that alternate with computing approach the same result as they shrink.
  CHECK(off_fine / compared < 0.002);
  CHECK(off_fine < 0.1 * off_halves);
  CHECK(off_halves < 0.2 * lost);
  MESSAGE("lost to contention " << 100 * lost / compared
                                << " %; with two all-reduces per layer at their real times it is off by "
                                << 100 * off_halves / compared << " %, with 64 by " << 100 * off_fine / compared
                                << " %");
}

TEST_CASE("all-reduces on the link: with two lanes, either active lane halves their rate") {
  Random random{20265};
  const ReferenceReduces spread{0};
  int compared = 0, equal = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    OnLink input{random};
    input.pipeline.link.out_blocks_per_s = input.pipeline.link.blocks_per_s * (0.5 + random.uniform());
    input.pipeline.link.mix_loss = random.below(4) == 0 ? 0 : 0.6 * random.uniform();
    input.pipeline.background_blocks = static_cast<double>(random.below(200));
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      ReferenceOutward outward{.blocks = input.pipeline.background_blocks};
      const std::vector<double> ends = reference_run(input.pipeline, reference_of<Rule>(), 1, &outward, &spread);
      REQUIRE(ends.size() == 1);
      ++compared;
      if (outward.resumed) return; // evaluate_link treats inbound traffic as one run
      ++equal;
      typename Rule::State state;
      // While its last layer computes, the pool prefetches for the next token. evaluate_link does not count that as
      // parallel to the outbound lane, because it delays nothing.
      const double off = std::is_same_v<Rule, DeadlinePool> ? 0.01 : 1e-9;
      CHECK(evaluate_link<Rule>(input.pipeline, state).step_s == doctest::Approx(ends[0]).epsilon(off));
    });
  }
  MESSAGE(equal << " of " << compared << " compared");
  CHECK(equal > compared / 5);
}

TEST_CASE("all-reduces on the link: slower if both are active, the same if either is absent") {
  Random random{20262};
  for (int trial = 0; trial < 500; ++trial) {
    OnLink input{random};
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      Pipeline own = input.pipeline; // the all-reduces have a link of their own
      own.on_link = 0;
      typename Rule::State of_both, of_own;
      const StepCost both = evaluate_link<Rule>(input.pipeline, of_both);
      const StepCost apart = evaluate_link<Rule>(own, of_own);
      CHECK(both.step_s >= apart.step_s);
      CHECK(both.step_s - both.stall_s == doctest::Approx(apart.step_s - apart.stall_s)); // the computation
      // Some of the traffic crosses while something computes, unless the computation waits for all of it.
      if (apart.link_s > apart.stall_s * (1 + 1e-9)) CHECK(both.step_s > apart.step_s);
      // At most all the all-reduces again, and at most the time of the transfers.
      const double reduces_s = input.pipeline.on_link * input.pipeline.compute_total_s();
      CHECK(both.step_s <= apart.step_s + std::min(reduces_s, input.pipeline.on_link * apart.link_s) * (1 + 1e-9));
      // The next iteration starts from the same state: the link has moved as much.
      CHECK(evaluate_link<Rule>(own, of_both).step_s == evaluate_link<Rule>(own, of_own).step_s);
    });
    input.stop_transfers();
    for_each_rule(AllRules{}, [&]<class Rule>() {
      typename Rule::State state;
      const StepCost cost = evaluate_link<Rule>(input.pipeline, state);
      CHECK(cost.step_s == doctest::Approx(input.pipeline.compute_total_s()).epsilon(1e-12));
      CHECK(cost.stall_s == 0);
    });
  }
}

TEST_CASE("all-reduces on the link: if the link is always busy, the step is its work plus all all-reduces") {
  Random random{20263};
  for (int trial = 0; trial < 300; ++trial) {
    OnLink input{random};
    input.stop_transfers();
    const double compute_s = input.pipeline.compute_total_s();
    input.pipeline.urgent_blocks = 1.5 * compute_s * input.pipeline.link.blocks_per_s; // outlasts the computation
    input.pipeline.first_blocks = input.pipeline.urgent_blocks * 0.9;
    for_each_rule(AllRules{}, [&]<class Rule>() {
      typename Rule::State state;
      const StepCost cost = evaluate_link<Rule>(input.pipeline, state);
      const ReferenceReduces fine{200};
      const std::vector<double> ends = reference_run(input.pipeline, reference_of<Rule>(), 1, nullptr, &fine);
      REQUIRE(ends.size() == 1);
      CHECK(cost.step_s == doctest::Approx(ends[0]).epsilon(0.01));
    });
  }
}

/// Keeps the end of the last layer, and checks the order.
struct Last {
  static constexpr bool enabled = true;
  double end_s = 0, stall_s = 0;
  void layer(int, double start_s, double end, double stall, StallCause) {
    CHECK(start_s >= end_s - 1e-12);
    end_s = end;
    stall_s += stall;
  }
  void transfer(int, int, double start_s, double end) { CHECK(start_s <= end * (1 + 1e-12)); }
};

TEST_CASE("all-reduces on the link: a sink gets the iteration that took place") {
  Random random{20264};
  for (int trial = 0; trial < 200; ++trial) {
    OnLink input{random};
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      typename Rule::State told, untold;
      Last last;
      const StepCost cost = evaluate_link<Rule>(input.pipeline, told, last);
      CHECK(cost.step_s == evaluate_link<Rule>(input.pipeline, untold).step_s);
      CHECK(last.end_s <= cost.step_s * (1 + 1e-12));
      if (input.pipeline.after_s == 0) CHECK(last.end_s == doctest::Approx(cost.step_s));
      CHECK(evaluate_link<Rule>(input.pipeline, told).step_s == evaluate_link<Rule>(input.pipeline, untold).step_s);
    });
  }
}

} // namespace
} // namespace sluice::test

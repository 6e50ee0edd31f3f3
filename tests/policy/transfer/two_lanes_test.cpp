// SPDX-License-Identifier: Apache-2.0
// Two lanes: outbound and inbound traffic together, against an independent simulation.
#include "sluice/policy/transfer/evaluate_link.hpp"

#include "policy/transfer/random_pipeline.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace sluice::test {
namespace {

/// A random iteration on two lanes with outbound traffic; room for `DeadlinePool`.
struct TwoLanes : RandomPipeline {
  explicit TwoLanes(Random& random) : RandomPipeline(random) {
    pipeline.room_blocks = DeadlinePool::held_blocks(loads(), {}) * (1 + 2 * random.uniform());
    pipeline.link.out_blocks_per_s = pipeline.link.blocks_per_s * (0.5 + random.uniform());
    pipeline.link.mix_loss = random.below(4) == 0 ? 0 : 0.6 * random.uniform();
    pipeline.background_blocks = static_cast<double>(random.below(200));
    if (random.below(2) == 0) pipeline.written_blocks = static_cast<double>(random.below(100));
    const std::vector<double> sums = loads(); // makes room for prefetches
    if (random.below(3) == 0 && *std::max_element(sums.begin(), sums.end()) > 0)
      pipeline.urgent_out_blocks = static_cast<double>(random.below(30));
  }
};

TEST_CASE("two lanes: never earlier than the simulation, and the same if the inbound lane does not pause") {
  Random random{31};
  int compared = 0;
  int equal = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    TwoLanes input{random};
    input.pipeline.urgent_out_blocks = 0; // the simulation has no memory for which a transfer would wait
    input.pipeline.written_blocks = 0;
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      ReferenceOutward outward{.blocks = input.pipeline.background_blocks};
      const std::vector<double> ends = reference_run(input.pipeline, reference_of<Rule>(), 1, &outward);
      REQUIRE(ends.size() == 1);
      double background = 0;
      const double step = cost_of<Rule>(input.pipeline, &background).step_s;
      CHECK(step >= ends[0] * (1 - 1e-9));
      ++compared;
      if (outward.paused) return;
      ++equal;
      CHECK(step == doctest::Approx(ends[0]).epsilon(1e-9));
    });
  }
  CHECK(equal > compared / 3);
}

TEST_CASE("two lanes: an outbound lane that is busy to the end slows prefetches to the end, and more traffic slows no "
          "further") {
  Random random{37};
  for (int trial = 0; trial < 2000; ++trial) {
    TwoLanes input{random};
    input.pipeline.urgent_out_blocks = input.pipeline.written_blocks = 0;
    // Enough to outlast everything: the outbound lane is active from the start to the end of the iteration.
    input.pipeline.background_blocks = 1e5;
    ReferenceOutward outward{.blocks = input.pipeline.background_blocks};
    const std::vector<double> ends = reference_run(input.pipeline, ReferenceRule::next_layer, 1, &outward);
    double background = 0;
    const double step = cost_of<NextLayer>(input.pipeline, &background).step_s;
    CHECK(step == doctest::Approx(ends[0]).epsilon(1e-9)); // slowed throughout, with or without pauses
    CHECK(background <= input.pipeline.background_blocks);
    const double rate = input.pipeline.link.out_blocks_per_s;
    CHECK(input.pipeline.background_blocks - background <= step * rate * (1 + 1e-9));
    CHECK(input.pipeline.background_blocks - background >= step * rate * (1 - input.pipeline.link.mix_loss) - 1e-6);
  }
}

TEST_CASE("two lanes without a mix loss: outbound traffic costs nothing unless it takes longest") {
  Random random{41};
  for (int trial = 0; trial < 1000; ++trial) {
    TwoLanes input{random};
    input.pipeline.link.mix_loss = 0;
    input.pipeline.urgent_out_blocks = 0;
    const double rate = input.pipeline.link.out_blocks_per_s;
    for_each_rule(AllRules{}, [&]<class Rule>() {
      Pipeline alone = input.pipeline;
      alone.background_blocks = alone.written_blocks = 0;
      double left = 0;
      const StepCost cost = cost_of<Rule>(input.pipeline, &left);
      const StepCost without = cost_of<Rule>(alone);
      const double written_s = input.pipeline.written_blocks / rate;
      CHECK(cost.step_s == doctest::Approx(std::max(without.step_s, written_s)).epsilon(1e-12));
      CHECK(cost.stall_s - without.stall_s == doctest::Approx(cost.step_s - without.step_s));
      const double out = input.pipeline.written_blocks + input.pipeline.background_blocks;
      CHECK(left == doctest::Approx(std::max(0.0, out - cost.step_s * rate)).epsilon(1e-9));
    });
  }
}

TEST_CASE("two lanes: a larger mix loss ends later, but never later than on a link that always loses it") {
  Random random{43};
  for (int trial = 0; trial < 1000; ++trial) {
    TwoLanes input{random};
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      double before = 0;
      double left_before = 0;
      for (const double loss : {0.0, 0.1, 0.29, 0.5, 0.8}) {
        input.pipeline.link.mix_loss = loss;
        double left = 0;
        const double step = cost_of<Rule>(input.pipeline, &left).step_s;
        CHECK(step >= before * (1 - 1e-9));
        if (step <= before * (1 + 1e-12)) CHECK(left >= left_before - 1e-6); // a longer step moves more
        Pipeline slow = input.pipeline;
        slow.link.mix_loss = 0;
        slow.link.blocks_per_s *= 1 - loss;
        slow.link.per_layer_s /= 1 - loss;
        slow.link.out_blocks_per_s *= 1 - loss;
        CHECK(step <= cost_of<Rule>(slow).step_s * (1 + 1e-9));
        before = step;
        left_before = left;
      }
    });
  }
}

TEST_CASE("two lanes are never slower than one lane") {
  Random random{47};
  for (int trial = 0; trial < 1000; ++trial) {
    TwoLanes input{random};
    input.pipeline.link.out_blocks_per_s = input.pipeline.link.blocks_per_s;
    input.pipeline.written_blocks = 0; // on one lane they might not fit in between
    Pipeline one = input.pipeline;
    one.link.out_blocks_per_s = 0;
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      // Without mix loss: at any moment, and with less left to evict.
      Pipeline two = input.pipeline;
      two.link.mix_loss = 0;
      typename Rule::State of_one, of_two;
      Pipeline again_one = one, again_two = two;
      for (int iteration = 0; iteration < 3; ++iteration) {
        CHECK(evaluate_link<Rule>(again_two, of_two).step_s <=
              evaluate_link<Rule>(again_one, of_one).step_s * (1 + 1e-9));
        CHECK(of_two.background_blocks <= of_one.background_blocks + 1e-6);
        for (Pipeline* pipeline : {&again_one, &again_two})
          pipeline->urgent_blocks = pipeline->first_blocks = pipeline->urgent_out_blocks = pipeline->background_blocks =
              0;
      }
      // A loss of one half at most: traffic in both directions still ends no later than one direction after the other.
      two.link.mix_loss = 0.5 * random.uniform();
      two.background_blocks = 0;
      Pipeline in_turn = one;
      in_turn.background_blocks = 0;
      CHECK(cost_of<Rule>(two).step_s <= cost_of<Rule>(in_turn).step_s * (1 + 1e-9));
    });
  }
}

TEST_CASE("two lanes: a clock without loss is the plain one, and the two clocks are inverse") {
  CHECK(LinkClock{}.after(0.1, 0.2) == 0.1 + 0.2);
  Random random{53};
  for (int trial = 0; trial < 1000; ++trial) {
    const LinkClock clock{random.uniform() * 3, random.uniform() * 0.9};
    const double when = random.uniform() * 5;
    const double more = random.uniform();
    CHECK(clock.seconds(clock.link_time(when)) == doctest::Approx(when));
    CHECK(clock.seconds(clock.after(clock.link_time(when), more)) == doctest::Approx(when + more));
    CHECK(clock.after(when, 0.0) == doctest::Approx(when));
  }
}

} // namespace
} // namespace sluice::test

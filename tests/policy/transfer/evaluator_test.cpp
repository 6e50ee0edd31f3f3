// SPDX-License-Identifier: Apache-2.0
// The evaluator: the paper's worked example, an independent simulation, and which rules never end later than others.
#include "sluice/policy/transfer/transfer_rule.hpp"

#include "policy/transfer/random_pipeline.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <vector>

namespace sluice::test {
namespace {

LayerSet layers_from_1(std::initializer_list<int> layers) {
  LayerSet set;
  for (const int layer : layers) set.insert(layer - 1);
  return set;
}

template <class Rule>
std::vector<double> ends_of(const Pipeline& pipeline, int iterations) {
  typename Rule::State state;
  std::vector<double> ends;
  Pipeline later = pipeline;
  for (int i = 0; i < iterations; ++i) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + Rule::evaluate(later, state).step_s);
    later.urgent_blocks = later.first_blocks = 0;
  }
  return ends;
}

struct Figure {
  double step_1, step_16;
};
template <class Rule, class Count>
Figure worked_example(LayerSet first, LayerSet second) {
  const auto at = [&](double blocks) {
    const std::vector<double> compute(9, 1.0);
    const LayerStream streams[] = {{first, blocks}, {second, 6}};
    Pipeline pipeline;
    pipeline.compute_s = compute;
    pipeline.link = {3, 0};
    pipeline.streams = streams;
    LayerArray loads;
    detail::layer_loads(pipeline, loads);
    const double resident = 9 * (blocks + 6) - first.count() * blocks - second.count() * 6;
    const double buffer = Count::template blocks<Rule>(std::span<const double>{loads.data(), 9}, std::span{streams});
    if (resident + buffer > 70) return -(resident + buffer); // infeasible, and by how many blocks
    pipeline.room_blocks = 70 - resident;
    typename Rule::State state;
    const StepCost cost = Rule::evaluate(pipeline, state);
    CHECK(cost.step_s == doctest::Approx(9 + cost.stall_s));
    return cost.stall_s * 3;
  };
  return {at(3), at(4)};
}

TEST_CASE("the worked example of OrbitFlow's Fig. 3, in block times of stall") {
  const LayerSet thirds = layers_from_1({3, 6, 9});
  const LayerSet fourths = layers_from_1({4, 8});
  const auto check = [](Figure figure, double step_1, double step_16) {
    CHECK(figure.step_1 == doctest::Approx(step_1));
    CHECK(figure.step_16 == doctest::Approx(step_16));
  };
  check(worked_example<FairShare, PaperBuffer>(thirds, thirds), 9, 12);
  check(worked_example<FairShare, PaperBuffer>({}, thirds), 0, -78);
  check(worked_example<FairShare, PaperBuffer>(fourths, thirds), 6, 7);
  check(worked_example<EarliestDeadlineFirst, PaperBuffer>(thirds, thirds), 9, 12);
  check(worked_example<EarliestDeadlineFirst, PaperBuffer>({}, thirds), 0, -78);
  check(worked_example<EarliestDeadlineFirst, PaperBuffer>(fourths, thirds), 0, 2);
  check(worked_example<DeadlinePool, HeldBuffer>(thirds, thirds), 3, 12);
  check(worked_example<DeadlinePool, HeldBuffer>({}, thirds), 0, -78);
  check(worked_example<DeadlinePool, HeldBuffer>(fourths, thirds), 0, 10);
  // Two buffers of placement C really hold 4 + 6 blocks besides 64: it does not fit.
  CHECK(worked_example<FairShare, HeldBuffer>(fourths, thirds).step_16 == -74);
}

TEST_CASE("every rule agrees with a plain event simulation, over one to four iterations") {
  Random random{20240101};
  for (int trial = 0; trial < 2500; ++trial) {
    RandomPipeline input{random};
    const std::vector<double> loads = input.loads();
    const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
    const double worst = DeadlinePool::held_blocks(loads, {});
    input.pipeline.room_blocks = worst + random.uniform() * (random.below(2) == 0 ? worst : total);
    if (random.below(4) == 0) input.pipeline.room_blocks = worst;
    for_each_rule(AllRules{}, [&]<class Rule>() {
      const std::vector<double> expected = reference_run(input.pipeline, reference_of<Rule>(), 4);
      const std::vector<double> got = ends_of<Rule>(input.pipeline, 4);
      INFO("trial " << trial << " rule " << Rule::name);
      REQUIRE(expected.size() == 4);
      for (std::size_t i = 0; i < 4; ++i) {
        INFO("iteration " << i + 1);
        CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-8));
      }
    });
  }
}

TEST_CASE("with equal memory no rule ends before DeadlinePool, and FairShare never ends before EarliestDeadlineFirst") {
  Random random{7};
  int earlier = 0;
  for (int trial = 0; trial < 10'000; ++trial) {
    RandomPipeline input{random, true};
    const std::vector<double> loads = input.loads();
    const auto check = [&]<class Rule>() {
      // Exactly the blocks that the other rule holds.
      input.pipeline.room_blocks = Rule::held_blocks(loads, input.pipeline.streams);
      const std::vector<double> pool = ends_of<DeadlinePool>(input.pipeline, 3);
      const std::vector<double> other = ends_of<Rule>(input.pipeline, 3);
      for (std::size_t i = 0; i < 3; ++i) {
        INFO("trial " << trial << " against " << Rule::name << " after iteration " << i + 1);
        CHECK(pool[i] <= other[i] * (1 + 1e-9));
      }
      if (std::is_same_v<Rule, EarliestDeadlineFirst> && pool[0] < other[0] * (1 - 1e-9)) ++earlier;
    };
    check.template operator()<NextLayer>();
    check.template operator()<FairShare>();
    check.template operator()<EarliestDeadlineFirst>();
    const std::vector<double> nearest = ends_of<EarliestDeadlineFirst>(input.pipeline, 3);
    const std::vector<double> shared = ends_of<FairShare>(input.pipeline, 3);
    for (std::size_t i = 0; i < 3; ++i) {
      INFO("trial " << trial << " after iteration " << i + 1);
      CHECK(nearest[i] <= shared[i] * (1 + 1e-9));
    }
  }
  MESSAGE("DeadlinePool ended earlier than EarliestDeadlineFirst on " << earlier << " of 10000");
}

/// Keeps the timeline, and checks that it is possible.
struct Recorder {
  static constexpr bool enabled = true;
  struct Layer {
    double start, end, stall;
    StallCause cause;
  };
  struct Transfer {
    int stream, layer;
    double start, end;
  };
  std::vector<Layer> layers;
  std::vector<Transfer> transfers;
  void layer(int, double start, double end, double stall, StallCause cause) {
    layers.push_back({start, end, stall, cause});
  }
  void transfer(int stream, int layer, double start, double end) { transfers.push_back({stream, layer, start, end}); }
};

TEST_CASE("the timeline agrees with the cost") {
  Random random{99};
  for (int trial = 0; trial < 500; ++trial) {
    RandomPipeline input{random};
    const std::vector<double> loads = input.loads();
    input.pipeline.room_blocks = DeadlinePool::held_blocks(loads, {}) * (1 + random.uniform());
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      typename Rule::State state;
      typename Rule::State silent;
      for (int iteration = 0; iteration < 2; ++iteration) {
        Recorder recorder;
        const StepCost cost = Rule::evaluate(input.pipeline, state, recorder);
        CHECK(cost.step_s == Rule::evaluate(input.pipeline, silent).step_s);
        REQUIRE(recorder.layers.size() == input.compute.size());
        double time = input.pipeline.before_s;
        double stalls = 0;
        for (const Recorder::Layer& layer : recorder.layers) {
          CHECK(layer.start == doctest::Approx(time + layer.stall));
          CHECK((layer.stall > 0) == (layer.cause != StallCause::none));
          time = layer.end;
          stalls += layer.stall;
        }
        CHECK(cost.step_s == doctest::Approx(time + input.pipeline.after_s));
        CHECK(cost.stall_s == doctest::Approx(stalls));
        for (const Recorder::Transfer& transfer : recorder.transfers) {
          CHECK(transfer.start <= transfer.end + 1e-9);
          if (transfer.layer < input.pipeline.layers())
            CHECK(transfer.end <= recorder.layers[static_cast<std::size_t>(transfer.layer)].start + 1e-9);
        }
      }
    });
  }
}

TEST_CASE("streamed weights without KV take the same time under every rule that starts them by slots") {
  Random random{31};
  for (int trial = 0; trial < 1000; ++trial) {
    RandomPipeline input{random};
    input.pipeline.streams = {};
    if (input.pipeline.weights.empty()) input.stream_weights(random);
    const std::vector<double> pool = ends_of<DeadlinePool>(input.pipeline, 4);
    const std::vector<double> shared = ends_of<FairShare>(input.pipeline, 4);
    const std::vector<double> nearest = ends_of<EarliestDeadlineFirst>(input.pipeline, 4);
    // An additional slot never makes it later, and an additional streamed layer never earlier.
    Pipeline more = input.pipeline;
    more.weights.slots = std::min(more.weights.slots + 1, more.weights.layers.count());
    const std::vector<double> with_slot = ends_of<DeadlinePool>(more, 4);
    for (std::size_t i = 0; i < 4; ++i) {
      INFO("trial " << trial << " iteration " << i + 1);
      CHECK(shared[i] == doctest::Approx(pool[i]).epsilon(1e-9));
      CHECK(nearest[i] == doctest::Approx(pool[i]).epsilon(1e-9));
      CHECK(with_slot[i] <= pool[i] * (1 + 1e-9));
    }
  }
}

TEST_CASE("Select-N's interval and MIRAGE's conditions, on even layers and a full pipeline") {
  // n layers with compute time 1; m of them, evenly spaced, through one slot or two, with transfers of t.
  const auto stalls = [](int layers, int m, int slots, double t) {
    const std::vector<double> compute(static_cast<std::size_t>(layers), 1.0);
    Pipeline pipeline;
    pipeline.compute_s = compute;
    pipeline.link = {1, 0};
    for (int i = 0; i < m; ++i) pipeline.weights.layers.insert(i * layers / m);
    pipeline.weights.blocks = t;
    pipeline.weights.slots = slots;
    FairShare::State state;
    for (int i = 0; i < 20; ++i) FairShare::evaluate(pipeline, state); // until it repeats
    return FairShare::evaluate(pipeline, state).stall_s > 1e-9;
  };
  // Every interval of n / m layers hides one transfer behind its other layers: T_T m <= T_c (n - m).
  CHECK_FALSE(stalls(40, 4, 1, 9.0));
  CHECK(stalls(40, 4, 1, 9.01));
  CHECK_FALSE(stalls(40, 8, 1, 4.0));
  CHECK(stalls(40, 8, 1, 4.01));
  // Two slots hide behind all n layers: T_T m <= T_c n.
  CHECK_FALSE(stalls(40, 8, 2, 5.0));
  CHECK(stalls(40, 8, 2, 5.01));
  CHECK_FALSE(stalls(40, 40, 2, 1.0)); // DeepSpeed's interval of 1: one layer ahead
  CHECK(stalls(40, 40, 2, 1.01));
}

TEST_CASE("the planner's short form of DeadlinePool equals the evaluator") {
  Random random{5};
  for (int trial = 0; trial < 2000; ++trial) {
    RandomPipeline input{random, true};
    const std::vector<double> loads = input.loads();
    input.pipeline.room_blocks = DeadlinePool::held_blocks(loads, {}) * (1 + random.uniform());
    DeadlinePool::State state;
    const double full = DeadlinePool::evaluate(input.pipeline, state).step_s;
    const DeadlinePool::Cold cold{input.compute, 0, 0, 1 / input.pipeline.link.blocks_per_s};
    std::vector<double> rest(input.compute.size());
    std::partial_sum(input.compute.rbegin(), input.compute.rend(), rest.rbegin());
    const auto short_form = [&](double limit) {
      return DeadlinePool::cold_step_s(cold, loads, input.pipeline.room_blocks, rest.data(), limit);
    };
    CHECK(short_form(std::numeric_limits<double>::infinity()) == doctest::Approx(full).epsilon(1e-12));
    // Stopped early, its result never exceeds the true time.
    const double early = short_form(full * (0.8 + 0.4 * random.uniform()));
    CHECK(early <= full * (1 + 1e-12));
  }
}

TEST_CASE("a plan change's transfers come after the prefetches and never delay them") {
  Random random{11};
  for (int trial = 0; trial < 300; ++trial) {
    RandomPipeline input{random, true};
    if (trial % 3 == 0) input.stream_weights(random);
    input.pipeline.room_blocks = DeadlinePool::held_blocks(input.loads(), {});
    const double delta = static_cast<double>(1 + random.below(500));
    for_each_rule(AllRules{}, [&]<class Rule>() {
      typename Rule::State plain, loaded;
      double link_s = 0;
      double before = delta;
      for (int iteration = 0; iteration < 5; ++iteration) {
        input.pipeline.background_blocks = 0;
        const double time = Rule::evaluate(input.pipeline, plain).step_s;
        input.pipeline.background_blocks = iteration == 0 ? delta : 0;
        CHECK(Rule::evaluate(input.pipeline, loaded).step_s == time);
        CHECK(loaded.background_blocks <= before);
        before = loaded.background_blocks;
        link_s += time;
      }
      CHECK(delta - before <= link_s * input.pipeline.link.blocks_per_s * (1 + 1e-9));
      input.pipeline.background_blocks = 0;
    });
  }
}

TEST_CASE("an iteration without offloading takes the compute time under every rule") {
  const std::vector<double> compute{1, 2, 3};
  Pipeline pipeline;
  pipeline.compute_s = compute;
  pipeline.before_s = 0.5;
  pipeline.after_s = 0.25;
  pipeline.link = {1, 0.1};
  for_each_rule(AllRules{}, [&]<class Rule>() {
    typename Rule::State state;
    const StepCost cost = Rule::evaluate(pipeline, state);
    CHECK(cost.step_s == 6.75);
    CHECK(cost.stall_s == 0);
  });
}

} // namespace
} // namespace sluice::test

// SPDX-License-Identifier: Apache-2.0
// KV that is written back to the host as it is computed, on one lane with the prefetches, against an independent
// simulation.
#include "sluice/model/device/named.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/policy/transfer/evaluate_link.hpp"

#include "policy/transfer/random_pipeline.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace sluice::test {
namespace {

/// A random iteration on one lane with outbound traffic; room for `DeadlinePool`.
struct OneLane : RandomPipeline {
  explicit OneLane(Random& random, bool plain = false) : RandomPipeline(random, plain) {
    pipeline.room_blocks = DeadlinePool::held_blocks(loads(), {}) * (1 + 2 * random.uniform());
    pipeline.link.mix_loss = random.below(4) == 0 ? 0 : 0.6 * random.uniform();
    pipeline.written_blocks = static_cast<double>(1 + random.below(200));
  }
  [[nodiscard]] double in_blocks() const {
    double blocks = pipeline.weights.blocks * pipeline.weights.layers.count();
    for (const double load : loads()) blocks += load;
    return blocks;
  }
};

TEST_CASE("written on one lane: never earlier than the simulation, and the same if inbound transfers do not pause") {
  Random random{61};
  int compared = 0;
  int equal = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    OneLane input{random};
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      ReferenceOutward outward{.blocks = input.pipeline.written_blocks, .shares = true};
      const std::vector<double> ends = reference_run(input.pipeline, reference_of<Rule>(), 1, &outward);
      REQUIRE(ends.size() == 1);
      const double end = ends[0] + outward.blocks / input.pipeline.link.blocks_per_s; // waits for all that must leave
      const double step = cost_of<Rule>(input.pipeline).step_s;
      CHECK(step >= end * (1 - 1e-9));
      ++compared;
      // Late writes count as slowed by all possible inbound traffic, which may be too much.
      const BlockLink& link = input.pipeline.link;
      const double all_mixed_s = input.pipeline.written_blocks / link.blocks_per_s * 2 / (1 - link.mix_loss);
      if (outward.paused || all_mixed_s > ends[0]) return;
      ++equal;
      CHECK(step == doctest::Approx(end).epsilon(1e-9));
    });
  }
  CHECK(equal > compared / 4);
}

TEST_CASE("written on one lane: the link never exceeds its rate, whatever is evicted in the background") {
  Random random{67};
  for (int trial = 0; trial < 2000; ++trial) {
    OneLane input{random};
    input.pipeline.background_blocks = static_cast<double>(random.below(300));
    input.pipeline.first_blocks = input.pipeline.urgent_blocks; // optional transfers need not have arrived at the end
    const double rate = input.pipeline.link.blocks_per_s;
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      Pipeline pipeline = input.pipeline;
      typename Rule::State state;
      double elapsed_s = 0;
      double moved = pipeline.background_blocks;
      for (int iteration = 0; iteration < 5; ++iteration) {
        elapsed_s += evaluate_link<Rule>(pipeline, state).step_s;
        moved += input.in_blocks() + pipeline.written_blocks + pipeline.urgent_blocks;
        CHECK(elapsed_s * rate >= (moved - state.background_blocks) * (1 - 1e-9));
        pipeline.urgent_blocks = pipeline.first_blocks = pipeline.background_blocks = 0;
      }
    });
  }
}

TEST_CASE("written on one lane: writes delay by at most their own work and twice the mix loss") {
  Random random{71};
  for (int trial = 0; trial < 2000; ++trial) {
    OneLane input{random};
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      Pipeline without = input.pipeline;
      without.written_blocks = 0;
      const double loss = input.pipeline.link.mix_loss;
      const double written_s = input.pipeline.written_blocks / input.pipeline.link.blocks_per_s;
      const double step = cost_of<Rule>(input.pipeline).step_s;
      const double alone = cost_of<Rule>(without).step_s;
      CHECK(step >= std::max(alone, written_s) * (1 - 1e-9));
      // Except that a different division of the link may delay a transfer that nothing waits for.
      if constexpr (!std::is_same_v<Rule, FairShare>)
        CHECK(step <= (alone + written_s * (1 + loss) / (1 - loss)) * (1 + 1e-9));
      Pipeline more = input.pipeline;
      more.written_blocks *= 1.5;
      CHECK(cost_of<Rule>(more).step_s >= step * (1 - 1e-9));
      more = input.pipeline;
      more.link.mix_loss = loss + 0.5 * (1 - loss);
      CHECK(cost_of<Rule>(more).step_s >= step * (1 - 1e-9));
    });
  }
}

TEST_CASE("written-back streams cost the same as plain writes, except for the memory of a layer on its way out") {
  Random random{73};
  for (int trial = 0; trial < 2000; ++trial) {
    OneLane input{random};
    if (trial % 2 == 1) input.pipeline.link.out_blocks_per_s = input.pipeline.link.blocks_per_s;
    Pipeline plain = input.pipeline;
    for (LayerStream& stream : input.streams) {
      if (random.below(3) == 0) continue;
      stream.written_back = stream.layers;
      plain.written_blocks += stream.blocks * stream.layers.count();
    }
    const std::vector<LayerStream> back = input.streams; // `plain` has streams that are not written back
    std::vector<LayerStream> forth = back;
    for (LayerStream& stream : forth) stream.written_back = {};
    input.pipeline.streams = back;
    plain.streams = forth;
    input.pipeline.room_blocks += detail::leaving_blocks(back);
    for_each_rule(AllRules{}, [&]<class Rule>() {
      INFO("trial " << trial << " rule " << Rule::name);
      typename Rule::State of_plain, of_back;
      for (int iteration = 0; iteration < 3; ++iteration)
        CHECK(evaluate_link<Rule>(input.pipeline, of_back).step_s ==
              doctest::Approx(evaluate_link<Rule>(plain, of_plain).step_s).epsilon(1e-12));
    });
  }
}

/// As much KV in both directions as `bytes`, evenly over the layers of an iteration that hardly computes: the rate that
/// a device's link achieves.
double rate_both_ways(const Device& device, double bytes, bool back) {
  constexpr int layers = 8;
  const Geometry geometry{layers, Bytes{1'000'000}, Bytes{0}};
  Pipeline pipeline;
  const std::vector<double> compute(layers, 1e-12);
  pipeline.compute_s = compute;
  LinkCost link = device_link(device);
  link.per_layer = link.per_segment = Seconds{0}; // only rates
  pipeline.link = block_link(link, geometry);
  const double blocks = bytes / 1e6 / layers;
  const LayerStream stream{LayerSet::all(layers), blocks, back ? LayerSet::all(layers) : LayerSet{}};
  pipeline.streams = {&stream, 1};
  pipeline.room_blocks = 2 * layers * blocks;
  DeadlinePool::State state;
  double seconds = 0;
  constexpr int iterations = 10;
  for (int i = 0; i < iterations; ++i) seconds += evaluate_link<DeadlinePool>(pipeline, state).step_s;
  return (back ? 2 : 1) * bytes * iterations / seconds;
}

TEST_CASE("a GH200 reads at 427 GB/s, and moves 366 GB/s in total if it writes as much (MIRAGE, 3.2)") {
  CHECK(rate_both_ways(gh200_96(), 4e9, false) == doctest::Approx(427e9).epsilon(1e-6));
  CHECK(rate_both_ways(gh200_96(), 4e9, true) == doctest::Approx(366e9).epsilon(1e-6));
  // SuperInfer's two lanes: 254.5 GB/s one way, 180 each if both are active.
  CHECK(rate_both_ways(gh200_144(), 4e9, false) == doctest::Approx(254.5e9).epsilon(1e-6));
  CHECK(rate_both_ways(gh200_144(), 4e9, true) == doctest::Approx(360e9).epsilon(1e-6));
}

} // namespace
} // namespace sluice::test

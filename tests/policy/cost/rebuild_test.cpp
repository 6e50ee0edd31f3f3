// SPDX-License-Identifier: Apache-2.0
// Rebuilding: which layers compute what for KV that is stored nowhere, and how long they take together with decoding.
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/calibrated.hpp"
#include "sluice/policy/cost/flop_count.hpp"
#include "sluice/policy/cost/linear_profile.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/cost/roofline.hpp"

#include "policy/cost/decoding.hpp"
#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

LayerSet random_set(Random& random, int layers, std::uint64_t one_of) {
  LayerSet set;
  for (int layer = 0; layer < layers; ++layer)
    if (random.below(one_of) == 0) set.insert(layer);
  return set;
}

template <class Model>
double total(const Model& model, const Work& work, int layers) {
  return compute_time(model, work, layers).count();
}

} // namespace

TEST_CASE("a layer is passed if a rebuilt layer above needs it and no hidden states are stored in between") {
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    const int layers = static_cast<int>(between(random, 1, 70));
    const LayerSet rebuilt = random_set(random, layers, 3);
    const LayerSet hidden = random_set(random, layers, 2) & rebuilt;
    const LayerSet passed = passed_layers(rebuilt, hidden);
    for (int layer = 0; layer < layers; ++layer) {
      bool needed = false;
      for (int above = layer + 1; above < layers && !needed; ++above) {
        needed = rebuilt.contains(above);
        for (int between_them = layer + 1; between_them <= above && needed; ++between_them)
          needed = !hidden.contains(between_them);
      }
      CHECK(passed.contains(layer) == needed);
    }
  }
}

TEST_CASE("the layers' sums equal their requests'") {
  Random random(12);
  for (int round = 0; round < 200; ++round) {
    const int layers = static_cast<int>(between(random, 1, 40));
    std::vector<RebuiltWork> rebuilds;
    for (std::int64_t count = between(random, 0, 9); count > 0; --count) {
      if (!rebuilds.empty() && random.below(2) == 0) {
        rebuilds.push_back(rebuilds.back()); // neighbours that rebuild the same layers
        rebuilds.back().tokens = Tokens{between(random, 0, 500)};
        continue;
      }
      const LayerSet set = random_set(random, layers, 2);
      rebuilds.push_back({Tokens{between(random, 0, 500)}, set, random_set(random, layers, 3) & set});
      rebuilds.back().states_on_device = random.below(2) == 0;
    }
    std::vector<LayerRebuild> sums(static_cast<std::size_t>(layers));
    rebuild_sums(rebuilds, sums);
    for (int layer = 0; layer < layers; ++layer) {
      LayerRebuild expected;
      for (const RebuiltWork& one : rebuilds) {
        if (one.layers.contains(layer)) expected.projected += one.tokens;
        if (one.states_on_device && one.hidden.contains(layer)) expected.read += one.tokens;
        if (!passed_layers(one.layers, one.hidden).contains(layer)) continue;
        expected.passed += one.tokens;
        for (std::int64_t query = 1; query <= one.tokens.count(); ++query)
          expected.pairs += static_cast<double>(query); // a token attends to the ones before it and itself
      }
      CHECK(sums[static_cast<std::size_t>(layer)] == expected);
    }
  }
}

TEST_CASE("rebuilding every layer costs a prompt without the output head and the end of the last layer") {
  const ModelShape shape = llama3_8b();
  const FlopCount model(shape, a100_80());
  const std::int64_t old = 700;
  Work work = decoding(1, 1000);
  const double plain = total(model, work, shape.layers);
  const std::vector<RebuiltWork> rebuilds{{Tokens{old}, LayerSet::all(shape.layers), {}}};
  work.rebuilds = rebuilds;
  const double rebuilt = total(model, work, shape.layers) - plain;

  const std::vector<ChunkWork> prompt{{Tokens{old}, Tokens{0}}};
  Work whole;
  whole.chunks = prompt;
  const double pairs = 0.5 * static_cast<double>(old * (old + 1));
  const double end_of_last = static_cast<double>(old) * (shape.linear_flops_per_token_per_layer().count() -
                                                         shape.kv_projection_flops_per_token_per_layer().count()) +
                             pairs * shape.attention_flops_per_pair_per_layer().count();
  CHECK(rebuilt ==
        doctest::Approx(total(model, whole, shape.layers) - end_of_last / a100_80().compute_rate(1).count()));
}

TEST_CASE("hidden states on the device are read in addition, and states from the host are not") {
  const ModelShape shape = opt_13b();
  const LayerWork layer(shape);
  const LayerSet every = LayerSet::all(shape.layers);
  std::vector<RebuiltWork> rebuilds{{Tokens{500}, every, every, true}};
  std::vector<LayerRebuild> here(static_cast<std::size_t>(shape.layers)), fetched(here.size());
  rebuild_sums(rebuilds, here);
  rebuilds[0].states_on_device = false;
  rebuild_sums(rebuilds, fetched);
  CHECK(layer.rebuild_bytes(here[7]) - layer.rebuild_bytes(fetched[7]) == doctest::Approx(500.0 * 5120 * 2));
  // A small batch decodes at the rate of the device's memory: its iteration is longer by reading the states.
  const Roofline model(shape, a100_80());
  Work work = decoding(1, 1000);
  work.rebuilds = rebuilds;
  const double before = total(model, work, shape.layers);
  rebuilds[0].states_on_device = true;
  CHECK(total(model, work, shape.layers) > before);
}

TEST_CASE("from hidden states kept for every layer, K and V are two projections") {
  const ModelShape shape = llama2_13b();
  const FlopCount model(shape, a100_80());
  Work work = decoding(4, 1000);
  const double plain = total(model, work, shape.layers);
  const LayerSet every = LayerSet::all(shape.layers);
  const std::vector<RebuiltWork> rebuilds{{Tokens{500}, every, every}};
  work.rebuilds = rebuilds;
  const double flops = 500.0 * shape.layers * 4.0 * 5120.0 * 5120.0;
  CHECK(total(model, work, shape.layers) - plain == doctest::Approx(flops / a100_80().compute_rate(1).count()));
}

TEST_CASE("each layer has its own time, as if computed one by one") {
  Random random(13);
  const ModelShape shape = llama2_13b();
  const Roofline model(shape, a100_80());
  for (int round = 0; round < 200; ++round) {
    std::vector<RebuiltWork> rebuilds;
    for (std::int64_t count = between(random, 1, 4); count > 0; --count) {
      const LayerSet set = random_set(random, shape.layers, 2);
      rebuilds.push_back({Tokens{between(random, 0, 900)}, set, random_set(random, shape.layers, 3) & set});
    }
    Work work = decoding(between(random, 1, 64), 1000);
    work.rebuilds = rebuilds;
    std::vector<double> times(static_cast<std::size_t>(shape.layers));
    std::vector<LayerRebuild> sums(times.size());
    layer_times(model, work, times);
    rebuild_sums(rebuilds, sums);
    for (std::size_t layer = 0; layer < times.size(); ++layer) {
      Work one = work;
      one.rebuilt = sums[layer];
      CHECK(times[layer] == doctest::Approx(model.step(one).layer.count()));
    }
    const StepTime ends = model.step(work);
    CHECK(total(model, work, shape.layers) ==
          doctest::Approx(ends.before.count() + ends.after.count() + std::accumulate(times.begin(), times.end(), 0.0)));
  }
}

TEST_CASE("rebuilding more never takes less time, and fused rebuilding never more than sequential") {
  Random random(14);
  const ModelShape shape = llama2_13b();
  const Roofline fused(shape, a100_80());
  const Roofline apart(shape, a100_80(), {}, Rebuilding::one_by_one);
  const LinearProfile line(shape, {9.63e-7, 4.95e-2}, {1.72e-5, 1.39e-2}, FlopsPerSecond{65e12});
  const FlopCount flops(shape, a100_80());
  for (int round = 0; round < 3000; ++round) {
    const LayerSet set = random_set(random, shape.layers, 2);
    std::vector<RebuiltWork> rebuilds{
        {Tokens{between(random, 0, 3000)}, set, random_set(random, shape.layers, 2) & set}};
    Work work = decoding(between(random, 1, 200), between(random, 1, 3000));
    const double plain = total(fused, work, shape.layers);
    work.rebuilds = rebuilds;
    const double before[] = {total(fused, work, shape.layers), total(apart, work, shape.layers),
                             total(line, work, shape.layers), total(flops, work, shape.layers)};
    const double slack = 1 - 1e-12; // sums in another order
    REQUIRE(before[0] >= plain * slack);
    REQUIRE(before[0] <= before[1] * (1 + 1e-12));
    rebuilds[0].tokens += Tokens{between(random, 0, 300)};
    if (random.below(2) == 0) rebuilds[0].hidden = {};

    REQUIRE(total(fused, work, shape.layers) >= before[0] * slack);
    REQUIRE(total(apart, work, shape.layers) >= before[1] * slack);
    REQUIRE(total(line, work, shape.layers) >= before[2] * slack);
    REQUIRE(total(flops, work, shape.layers) >= before[3] * slack);
  }
}

TEST_CASE("threads are split in whole warps in the ratio of the volumes, at least one warp each") {
  Random random(15);
  for (int round = 0; round < 1000; ++round) {
    const double rebuilt = random.uniform();
    const double decoded = random.uniform();
    const int threads = rebuilding_threads(rebuilt, decoded);
    CHECK(threads % 32 == 0);
    CHECK(threads >= 32);
    CHECK(threads <= 992);
    const double exact = rebuilt / (rebuilt + decoded) * 1024;
    if (exact >= 32 && exact < 992) CHECK(std::abs(threads - exact) < 32);
  }
  CHECK(rebuilding_threads(0, 1) == 32);
  CHECK(rebuilding_threads(1, 0) == 992);
  CHECK(rebuilding_threads(3, 1) == 768);
}

TEST_CASE("Calibrated learns from iterations with rebuilding as from others") {
  const ModelShape shape = llama2_13b();
  const Calibrated<Roofline> model(Roofline(shape, a100_80()), 1.0);
  Calibrated<Roofline>::State state;
  Work work = decoding(8, 1000);
  const std::vector<RebuiltWork> rebuilds{{Tokens{1000}, LayerSet::all(shape.layers), {}}};
  work.rebuilds = rebuilds;
  const Seconds predicted = compute_time(model, work, shape.layers);
  model.observe(state, {work, shape.layers, true, predicted * 1.25});
  CHECK(state.compute == doctest::Approx(1.25));
}

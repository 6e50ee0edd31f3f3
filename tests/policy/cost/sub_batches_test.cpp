// SPDX-License-Identifier: Apache-2.0
// SubBatches: against NEO's picture, and the division of hosted decodes against all divisions.
#include "sluice/core/random.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/cost/sub_batches.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace sub_batches_test {

using namespace sluice;

Device attending(double bytes_per_s) {
  Device device = a10();
  device.host_attention_rate = BytesPerSecond{bytes_per_s};
  return device;
}
/// Random device work, and decodes for the host, of a Llama-3-8B.
struct Scene {
  std::vector<ChunkWork> chunks;
  std::vector<Tokens> contexts;
  Work work;

  Scene(Random& random, std::uint64_t hosted) {
    if (random.below(2) == 0) chunks.push_back({Tokens{static_cast<std::int64_t>(2 + random.below(1000))}, Tokens{0}});
    work.chunks = chunks;
    work.decodes = static_cast<std::int64_t>(random.below(60));
    work.decode_context = Tokens{work.decodes * static_cast<std::int64_t>(1 + random.below(3000))};
    work.samples = work.decodes;
    for (std::uint64_t i = 0; i < hosted; ++i)
      contexts.push_back(Tokens{static_cast<std::int64_t>(1 + random.below(4000))});
    const ModelShape shape = llama3_8b();
    const std::int64_t kv = shape.layer_block_bytes(Tokens{16}).count() / 16;
    work.hosted = {contexts, Bytes{kv}, Bytes{kv + 2 * shape.layer_hidden_bytes(Tokens{16}).count() / 16}};
  }
};

TEST_CASE("a layer takes what NEO's two sub-batches take, each processor beside the other") {
  const SubBatches both{{3, 2}, 1, {2.5, 2.9}};
  CHECK(both.device_s() == 6);
  CHECK(both.layer_s() == 6); // 2.9 s on the host beside 3 s, and 2.5 s beside 3 s: the device never waits
  CHECK(SubBatches{{3, 2}, 1, {2.5, 3.5}}.layer_s() == 6.5);
  CHECK(SubBatches{{3, 2}, 1, {4, 0}}.layer_s() == 7);
  // Without a second sub-batch the host has only the device's attention to hide behind.
  CHECK(SubBatches{{3, 0}, 1, {2.5, 0}}.layer_s() == 5.5);
}

TEST_CASE("an iteration without hosted decodes is the cost model's own answer, to the bit") {
  Random random(1);
  const Roofline plain(llama3_8b(), a10()), with_host(llama3_8b(), attending(50e9));
  for (int round = 0; round < 200; ++round) {
    const Scene scene(random, 0);
    const StepTime expected = plain.step(scene.work);
    for (const Roofline* cost : {&plain, &with_host}) {
      const StepTime time = step_time(*cost, scene.work);
      CHECK(time.before == expected.before);
      CHECK(time.layer == expected.layer);
      CHECK(time.after == expected.after);
      CHECK(time.on_link == expected.on_link);
      CHECK(time.waits == Seconds{0});
      CHECK(compute_time(*cost, scene.work, 32) == expected.total(32));
    }
  }
}

TEST_CASE("a decode that the host attends alone: read at the host's rate, exchanged over the link") {
  const double rate = 50e9;
  const Roofline cost(llama3_8b(), attending(rate));
  const std::array<Tokens, 1> contexts{Tokens{4000}};
  Work work;
  work.samples = 1;
  work.hosted = {contexts, Bytes{4096}, Bytes{20480}};
  Work alone; // its matrix products
  alone.decodes = alone.samples = 1;
  alone.decode_context = Tokens{1};
  const StepTime time = step_time(cost, work);
  CHECK(time.layer == cost.step(alone).layer);
  const LinkCost link = cost.link();
  const double hosted_s = 4000 * 4096 / rate + 20480 / link.rate.count() + 2 * link.per_layer.count();
  CHECK(time.waits.count() == doctest::Approx(hosted_s)); // nothing else to compute meanwhile
  CHECK(time.before == cost.step(alone).before);
  CHECK(time.after == cost.step(alone).after);
}

TEST_CASE("the division is within a tenth of the best of all divisions, and mostly the best") {
  Random random(2);
  int optimal = 0;
  constexpr int rounds = 300;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const Scene scene(random, 1 + random.below(9));
    const Roofline cost(llama3_8b(), attending(5e9 * static_cast<double>(1 + random.below(60))));
    const SubBatchTimes<Roofline> times(cost, scene.work);
    const double chosen_s = times.of(times.divide()).layer_s();
    double best_s = chosen_s;
    for (std::uint32_t subset = 0; subset < (1U << scene.contexts.size()); ++subset) {
      HostedShare share;
      for (std::size_t i = 0; i < scene.contexts.size(); ++i) share.add((subset >> i) & 1U, scene.contexts[i]);
      best_s = std::min(best_s, times.of(share).layer_s());
    }
    CHECK(chosen_s <= 1.1 * best_s);
    optimal += chosen_s <= best_s * (1 + 1e-12);
    // However it is divided: no less than the device's own work, and than the host's.
    Work device = scene.work;
    device.hosted = {};
    CHECK(best_s >= cost.step(device).layer.count() * (1 - 1e-12));
  }
  CHECK(optimal > rounds * 9 / 10);
}

TEST_CASE("layers that rebuild take their rebuilding in addition to both sub-batches") {
  Random random(3);
  const Roofline cost(llama3_8b(), attending(100e9));
  for (int round = 0; round < 50; ++round) {
    Scene scene(random, 1 + random.below(20));
    std::array<double, 32> plain{}, rebuilt{};
    const StepTime without = layer_times(cost, scene.work, plain);
    LayerSet layers;
    layers.insert(3);
    const RebuiltWork work{Tokens{500}, layers, layers};
    scene.work.rebuilds = {&work, 1};
    const StepTime with = layer_times(cost, scene.work, rebuilt);
    CHECK(with.waits == without.waits);
    for (std::size_t layer = 0; layer < 32; ++layer)
      CHECK((rebuilt[layer] > plain[layer]) == (layer == 3 && rebuilt[layer] != plain[layer]));
    CHECK(rebuilt[3] >= plain[3]);
  }
}

} // namespace sub_batches_test

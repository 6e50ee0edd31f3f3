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
  device.host_attention_launch = Seconds{1e-4};
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

/// The two processors of NEO's pipeline, event by event, over `layers` layers: seconds from the first event to the
/// last. The device computes 0's products, attends 0, computes 1's products, and so on; the host attends a sub-batch
/// once its products are there, and the next layer's products of a sub-batch wait for its attention.
double two_lanes_s(const SubBatches& times, int layers) {
  double device = 0, host = 0;
  std::array<double, 2> attended{};
  for (int layer = 0; layer < layers; ++layer) {
    device = std::max(device, attended[0]) + times.linear_s[0];
    host = std::max(host, device) + times.hosted_s[0];
    attended[0] = host;
    device += times.attention_s;
    device = std::max(device, attended[1]) + times.linear_s[1];
    host = std::max(host, device) + times.hosted_s[1];
    attended[1] = host;
  }
  return std::max({device, attended[0], attended[1]});
}

TEST_CASE("a layer takes what two lanes take, one for each processor, in the long run") {
  Random random(4);
  constexpr int layers = 400;
  int device_waits = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const SubBatches times{
        {random.uniform(), random.uniform()}, random.uniform(), {2 * random.uniform(), 2 * random.uniform()}};
    const double lanes_s = (two_lanes_s(times, 2 * layers) - two_lanes_s(times, layers)) / layers;
    // The formula lets the host begin a sub-batch only when the device begins what runs beside it, as NEO's stages do.
    CHECK(times.layer_s() >= lanes_s - 1e-9);
    CHECK(times.layer_s() >= times.device_s() - 1e-12);
    if (std::min(times.left_s()[0], times.left_s()[1]) >= 0) {
      CHECK(times.layer_s() == doctest::Approx(times.device_s()));
      CHECK(lanes_s == doctest::Approx(times.device_s()));
    } else {
      ++device_waits;
      CHECK(times.layer_s() > times.device_s());
    }
  }
  CHECK(device_waits > 100);
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
  const double hosted_s = 4000 * 4096 / rate + 20480 / link.rate.count() + 1e-4; // the host's launch
  CHECK(time.waits.count() == doctest::Approx(hosted_s));                        // nothing else to compute meanwhile
  CHECK(time.before == cost.step(alone).before);
  CHECK(time.after == cost.step(alone).after);
}

TEST_CASE("the division never leaves sub-batch 1 empty, and hides what the host attends in the device's time") {
  Random random(2);
  int hidden = 0, close = 0;
  constexpr int rounds = 300;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const Scene scene(random, 1 + random.below(9));
    const Roofline cost(llama3_8b(), attending(5e9 * static_cast<double>(1 + random.below(60))));
    const SubBatchTimes<Roofline> times(cost, scene.work);
    const HostedShare share = times.divide();
    CHECK(share.decodes[1] > 0);
    CHECK(share.decodes[0] + share.decodes[1] == scene.work.hosted.decodes());
    const double chosen_s = times.of(share).layer_s();
    double best_s = chosen_s;
    for (std::uint32_t subset = 1; subset < (1U << scene.contexts.size()); ++subset) {
      HostedShare other;
      for (std::size_t i = 0; i < scene.contexts.size(); ++i) other.add((subset >> i) & 1U, scene.contexts[i]);
      best_s = std::min(best_s, times.of(other).layer_s());
    }
    close += chosen_s <= 1.1 * best_s;
    hidden += chosen_s <= times.of(share).device_s() * (1 + 1e-12);
    // However it is divided: no less than the device's own work, and than the host's.
    Work device = scene.work;
    device.hosted = {};
    CHECK(best_s >= cost.step(device).layer.count() * (1 - 1e-12));
  }
  CHECK(close > rounds * 9 / 10);
  CHECK(hidden > rounds * 8 / 10);
}

TEST_CASE("with one batch a layer takes its products, and then the longer of both attentions") {
  Random random(5);
  int host_longer = 0, device_longer = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const Scene scene(random, 1 + random.below(9));
    Device device = attending(5e9 * static_cast<double>(1 + random.below(60)));
    device.host_attention_batches = 1;
    const Roofline cost(llama3_8b(), device);
    const StepTime time = step_time(cost, scene.work);
    // By hand: the products of all tokens; the device's attention is what its own tokens take beyond their products.
    const auto products = [&](std::int64_t tokens) {
      Work work;
      work.decodes = tokens;
      work.decode_context = Tokens{tokens};
      return tokens > 0 ? cost.step(work).layer.count() : 0.0;
    };
    Work own = scene.work;
    own.hosted = {};
    const std::int64_t tokens = own.tokens().count();
    const double attention = tokens > 0 ? std::max(0.0, cost.step(own).layer.count() - products(tokens)) : 0.0;
    Work all = own; // with the hosted tokens' products
    all.decodes += scene.work.hosted.decodes();
    all.decode_context += Tokens{scene.work.hosted.decodes()};
    const double computed = cost.step(all).layer.count();
    double context = 0;
    for (const Tokens one : scene.contexts) context += static_cast<double>(one.count());
    const double hosted = 1e-4 + context * (scene.work.hosted.token_bytes / device.host_attention_rate).count();
    CHECK(time.layer.count() == doctest::Approx(computed));
    CHECK(time.on_link == cost.step(all).on_link); // nothing crosses the link
    CHECK(time.waits.count() == doctest::Approx(std::max(0.0, hosted - std::min(attention, computed))));
    (hosted > attention ? host_longer : device_longer) += 1;
  }
  CHECK(host_longer > 0);
  CHECK(device_longer > 0);
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
    const RebuiltWork work{Tokens{20000}, layers, layers}; // more than hides behind the weights
    scene.work.rebuilds = {&work, 1};
    const StepTime with = layer_times(cost, scene.work, rebuilt);
    CHECK(with.waits == without.waits);
    for (std::size_t layer = 0; layer < 32; ++layer)
      if (layer != 3) CHECK(rebuilt[layer] == plain[layer]);
    CHECK(rebuilt[3] > plain[3]);
  }
}

} // namespace sub_batches_test

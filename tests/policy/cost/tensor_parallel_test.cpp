// SPDX-License-Identifier: Apache-2.0
// TensorParallel: one device equals the model; more devices compute faster and pay for all-reduces; offloading slows a
// group whose all-reduces cross the host's link.
#include "sluice/core/random.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/orbitflow_baselines.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/calibrated.hpp"
#include "sluice/policy/cost/flop_count.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/cost/tensor_parallel.hpp"
#include "sluice/workload/generator.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace sluice;

namespace {

static_assert(CostModel<TensorParallel<Roofline>> && CostModel<TensorParallel<FlopCount>>);
static_assert(CostModel<Calibrated<TensorParallel<Roofline>>>);

template <class Base>
concept Divides = requires {
  typename TensorParallel<Base>;
};
static_assert(!Divides<Calibrated<Roofline>>, "what learns is outside");

/// A random iteration; chunks and rebuilds live in the arguments.
Work random_work(Random& random, std::vector<ChunkWork>& chunks, std::vector<RebuiltWork>& rebuilds) {
  Work work;
  work.decodes = work.samples = static_cast<std::int64_t>(random.below(128));
  work.decode_context = Tokens{work.decodes * static_cast<std::int64_t>(1 + random.below(4000))};
  chunks.clear();
  for (std::uint64_t left = random.below(3); left > 0; --left) {
    chunks.push_back({Tokens{random.below(2048) + 1}, Tokens{random.below(4096)}});
    ++work.samples;
  }
  work.chunks = chunks;
  rebuilds.clear();
  if (random.below(2) == 0) {
    RebuiltWork rebuild{Tokens{1 + random.below(500)}, {}, {}};
    for (int layer = 0; layer < 32; ++layer)
      if (random.below(3) == 0) rebuild.layers.insert(layer);
    rebuilds.push_back(rebuild);
  }
  work.rebuilds = rebuilds;
  return work;
}

TensorParallel<Roofline> group(const ModelShape& whole, const Device& device, int degree) {
  const Device member = *group_member(device, degree, 1, "test");
  AllReduce all_reduce = degree > 1 ? AllReduce{*device.peer, degree} : AllReduce{};
  return {Roofline{*tensor_shard(whole, degree, "test"), member}, whole, std::move(all_reduce)};
}

/// The same group with an equally fast link of its own between its devices.
Device apart(Device device) {
  device.peer->path = PeerPath::own;
  return device;
}

} // namespace

TEST_CASE("a group of one takes as long as its device, bit for bit") {
  Random random{3};
  std::vector<ChunkWork> chunks;
  std::vector<RebuiltWork> rebuilds;
  for (const NamedDevice& named : named_devices) {
    const Device device = named.device();
    const Roofline alone{llama3_8b(), device};
    const TensorParallel<Roofline> one = group(llama3_8b(), device, 1);
    for (int trial = 0; trial < 200; ++trial) {
      const Work work = random_work(random, chunks, rebuilds);
      LayerArray of_alone{}, of_one{};
      const StepTime a = layer_times(alone, work, {of_alone.data(), 32});
      const StepTime b = layer_times(one, work, {of_one.data(), 32});
      CHECK(a.before == b.before);
      CHECK(a.layer == b.layer);
      CHECK(a.after == b.after);
      CHECK(b.on_link == 0);
      CHECK(of_alone == of_one);
    }
    CHECK(alone.link().rate == one.link().rate);
  }
}

TEST_CASE("computing on more devices takes less time, but at least their part of it") {
  const ModelShape whole = llama3_70b();
  const std::vector<ChunkWork> prompt{{Tokens{2048}, Tokens{0}}};
  Work work;
  work.chunks = prompt;
  work.samples = 1;
  const double alone = group(whole, h100(), 1).step(work).total(whole.layers).count();
  double before = alone;
  for (const int degree : {2, 4, 8}) {
    const double time = group(whole, h100(), degree).step(work).total(whole.layers).count();
    CHECK(time < before);
    CHECK(time > alone / degree);
    before = time;
  }
  // With nothing to compute there is nothing to all-reduce.
  CHECK(group(whole, h100(), 8).step(Work{}).total(whole.layers) == Seconds{0});
}

TEST_CASE("two all-reduces per layer, one before and the logits after; they use the link if they cross it") {
  Random random{4};
  const ModelShape whole = llama3_70b();
  std::vector<ChunkWork> chunks;
  std::vector<RebuiltWork> rebuilds;
  for (const int degree : {2, 4, 8}) {
    const Device device = a100_80();
    const TensorParallel<Roofline> over = group(whole, device, degree);
    const TensorParallel<Roofline> beside = group(whole, apart(device), degree);
    const Roofline part{*tensor_shard(whole, degree, "test"), device};
    for (int trial = 0; trial < 200; ++trial) {
      Work work = random_work(random, chunks, rebuilds);
      work.rebuilds = {};
      if (work.tokens() == Tokens{0}) continue;
      const StepTime time = over.step(work);
      const StepTime computed = part.step(work);
      const double bytes = static_cast<double>(work.tokens().count()) * 8192 * 2;
      const double once = over.all_reduce().seconds(bytes).count();
      CHECK((time.layer - computed.layer).count() == doctest::Approx(2 * once));
      CHECK((time.before - computed.before).count() == doctest::Approx(once));
      const double logits = static_cast<double>(work.samples) * 128256 * 2;
      const double gather = over.all_reduce().gather_seconds(logits).count();
      CHECK((time.after - computed.after).count() == doctest::Approx(gather));
      CHECK(time.on_link == doctest::Approx((161 * once + gather) / time.total(80).count()));
      CHECK(beside.step(work).on_link == 0);
      CHECK(beside.step(work).total(80) == time.total(80));
    }
  }
}

TEST_CASE("rebuilt layers are all-reduced too, and the share on the link covers all layers") {
  Random random{6};
  const ModelShape whole = llama3_8b();
  const TensorParallel<Roofline> over = group(whole, rtx_4090(), 4);
  std::vector<ChunkWork> chunks;
  std::vector<RebuiltWork> rebuilds;
  int rebuilt = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const Work work = random_work(random, chunks, rebuilds);
    if (work.tokens() == Tokens{0}) continue;
    LayerArray compute{};
    const StepTime time = layer_times(over, work, {compute.data(), 32});
    std::vector<LayerRebuild> sums(32);
    rebuild_sums(work.rebuilds, sums);
    double on_link_s = 0, total_s = 0;
    const StepTime plain = over.step(work);
    on_link_s += plain.on_link * (plain.before + plain.after).count();
    total_s += (plain.before + plain.after).count();
    for (std::size_t layer = 0; layer < 32; ++layer) {
      Work one = work;
      one.rebuilt = sums[layer];
      const StepTime with = over.step(one);
      CHECK(compute[layer] == with.layer.count());
      on_link_s += with.on_link * with.layer.count();
      total_s += with.layer.count();
      rebuilt += sums[layer].passed > Tokens{0};
    }
    CHECK(time.on_link == doctest::Approx(on_link_s / total_s));
    CHECK(time.on_link < 1);
  }
  CHECK(rebuilt > 1000);
}

TEST_CASE("calibration changes a group's times, but not its share on the link") {
  const Calibrated<TensorParallel<Roofline>> model{group(llama3_70b(), a100_80(), 8)};
  Work work;
  work.decodes = work.samples = 32;
  work.decode_context = Tokens{32'000};
  Calibrated<TensorParallel<Roofline>>::State state;
  state.compute = 1.5;
  const StepTime time = model.predictor(state).step(work);
  CHECK(time.total(80).count() == doctest::Approx(1.5 * model.step(work).total(80).count()));
  CHECK(time.on_link == model.step(work).on_link);
  CHECK(time.on_link > 0);
}

TEST_CASE("offloading over the all-reduces' link is slower than over a separate link; without offloading there is no "
          "difference") {
  const ModelShape whole = llama3_70b();
  const ModelShape shard = *tensor_shard(whole, 8, "test");
  const Device over = *group_member(a100_80(), 8, 1, "test");
  GeneratorSpec few = demo_workload();
  few.requests = 12;
  const auto served = [&]<class E>(const Device& device) {
    const Server server{.model = shard, .device = device, .kv_blocks = TokenBlocks{1500}, .limits = {.batch = 4}};
    const TensorParallel<Roofline> cost{Roofline{shard, device}, whole, AllReduce{*device.peer, 8}};
    const Expected<Metrics> metrics = serve<E>(server, Generator{few, 3}, cost);
    REQUIRE(metrics);
    CHECK(metrics->served == 12);
    return *metrics;
  };
  const Metrics offloads = served.operator()<DeepSpeedInference>(over);
  const Metrics offloads_apart = served.operator()<DeepSpeedInference>(apart(over));
  const Metrics stays = served.operator()<Engine<>>(over);
  const Metrics stays_apart = served.operator()<Engine<>>(apart(over));
  CHECK(offloads.bytes_to_device > 0);
  CHECK(offloads.mean_tpot_s > offloads_apart.mean_tpot_s * 1.01);
  CHECK(stays.bytes_moved == 0);
  CHECK(stays.mean_tpot_s == stays_apart.mean_tpot_s);
}

// SPDX-License-Identifier: Apache-2.0
// A machine reuses the weights that the previous machine kept on the device, and loads only the others.
#include "emulated/eigen/on_gpu.hpp"
#include "emulated/kernel_runners.hpp"
#include "identity/eigen/trials.hpp"
#include "support/sanitized.hpp"
#include "support/small_models.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice::testing {
namespace {

/// Machines one after another on one device. Each is loaded when it is made, and its layers are kernels in f32.
struct OnOneGpu {
  std::shared_ptr<EmulatedGpu> gpu;
  std::shared_ptr<Bytes> loaded = std::make_shared<Bytes>(0); ///< by the last machine

  [[nodiscard]] static std::int64_t element_bytes() { return 4; }
  [[nodiscard]] MachineSetup setup(const RealTrial& trial, const Decoder& decoder, std::int64_t kv_blocks) const {
    MachineSetup setup = trial.setup(decoder, kv_blocks);
    setup.staged = LayerSet::all(trial.layers());
    setup.device_memory = device_memory_for(kv_blocks, ElementType::f32, trial.weights, setup);
    return setup;
  }
  [[nodiscard]] Expected<std::shared_ptr<GpuMachine>> make(const RealTrial& trial,
                                                           const std::unique_ptr<Decoder>& /*decoder*/,
                                                           const MachineSetup& setup, TokenListener listener) const {
    auto machine = GpuMachine::make(trial.weights, make_kernel_runner(ElementType::f32, gpu, trial.weights, setup),
                                    setup, std::move(listener), gpu, element_bytes());
    const Bytes before = gpu->given(StreamId::to_device);
    REQUIRE((*machine)->load().ok());
    *loaded = gpu->given(StreamId::to_device) - before;
    return machine;
  }
};

/// Two short requests of a small Llama.
RealTrial short_trial(Random& random) {
  RealTrial trial = random_gpu_trial(random);
  trial.weights = small_weights(SmallModel::llama, ElementType::f32, random());
  trial.prompts = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}};
  trial.outputs.assign(2, 3);
  trial.arrivals.assign(2, 0);
  trial.limits.batch = 2;
  trial.host_blocks = 2 * trial.all() + 64;
  return trial;
}

Bytes layer_bytes(const ModelWeights& weights) {
  Bytes sum{0};
  for (const TensorPlace& place : weights.layout.places) sum += Bytes{place.bytes()};
  return sum;
}
Bytes all_bytes(const ModelWeights& weights) {
  return weights.outer_bytes() + layer_bytes(weights) * weights.config.shape.layers;
}
/// Layers that the last machine did not keep as a whole.
std::int64_t not_kept(EmulatedGpu& gpu, const ModelWeights& weights) {
  const std::vector<DeviceWeights::Part>& parts = gpu.weights().layers;
  return std::count_if(parts.begin(), parts.end(),
                       [&](const DeviceWeights::Part& part) { return part.bytes < weights.layout.bytes.count(); });
}
/// KV blocks with which KV has to move, and many more than all requests need.
std::int64_t few_blocks(const RealTrial& trial) { return 11 * trial.largest() / 10 + 2 * trial.layers() + 8; }
std::int64_t many_blocks(const RealTrial& trial) { return few_blocks(trial) + trial.all() + 100; }
template <class E>
RealResult run_on(const OnOneGpu& where, const RealTrial& trial, std::int64_t kv_blocks) {
  return run_real<E>(
      trial, kv_blocks, [](auto&) {}, {}, where);
}

/// Rewrites what the last machine kept as if machines before had put the layers anywhere, in any order: most are kept,
/// and of some only the first half. Returns the number of layers that are not kept as a whole.
std::int64_t scatter(EmulatedGpu& gpu, const RealTrial& trial, Random& random) {
  const ModelWeights& weights = trial.weights;
  const std::int64_t block = kv_block_shape(weights.config.shape, trial.limits.block_tokens, 4).bytes().count();
  const std::int64_t image = weights.layout.bytes.count(), each = (image + block - 1) / block;
  std::vector<std::size_t> order(static_cast<std::size_t>(trial.layers()));
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  std::int64_t gaps = gpu.device_arena_bytes().count() / block - each * trial.layers(), at = 0, lost = 0;
  for (const std::size_t layer : order) {
    const auto gap = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(gaps) + 1));
    const std::uint64_t kept = random.below(6); // 0: nothing, 1: half of it
    gaps -= gap;
    at += gap;
    std::byte* const to = gpu.device_arena() + at * block;
    for (std::size_t i = 0; i < weights.layout.places.size(); ++i)
      std::memcpy(to + weights.layout.places[i].offset, weights.layers[layer][i],
                  static_cast<std::size_t>(weights.layout.places[i].bytes()));
    gpu.weights().layers[layer] = {gpu.device_arena_bytes().count() - at * block, kept == 0   ? 0
                                                                                  : kept == 1 ? image / 2
                                                                                              : image};
    if (kept < 2) ++lost;
    at += each;
  }
  return lost;
}

} // namespace

TEST_CASE("a second machine loads none of the weights that are on the device, and all others") {
  Random random(41);
  std::int64_t partly = 0;
  Bytes moved{0};
  for (int round = 0; round < (sanitized ? 2 : 12); ++round) {
    CAPTURE(round);
    RealTrial trial = short_trial(random);
    const Bytes all = all_bytes(trial.weights), layer = layer_bytes(trial.weights);
    const std::int64_t few = few_blocks(trial), many = many_blocks(trial);
    const OnOneGpu fresh{std::make_shared<EmulatedGpu>(random())}, gpu{std::make_shared<EmulatedGpu>(random())};
    const RealResult expected = run_on<Engine<>>(fresh, trial, many);
    const auto check = [&](const RealResult& result) {
      CHECK(result.refused == 0);
      CHECK(result.outputs == expected.outputs);
    };

    check(run_on<Engine<>>(gpu, trial, many));
    CHECK(*gpu.loaded == all);
    const RealResult moves = run_on<Chaos>(gpu, trial, few); // less memory
    check(moves);
    CHECK(*gpu.loaded == Bytes{0});
    moved += moves.moved.to_device.bytes;
    check(run_on<ChaosStreams>(gpu, trial, few)); // lends weights
    CHECK(*gpu.loaded == Bytes{0});

    const std::int64_t lent = not_kept(*gpu.gpu, trial.weights);
    partly += lent > 0 && lent < trial.layers() ? 1 : 0;
    check(run_on<Engine<>>(gpu, trial, many));
    CHECK(*gpu.loaded == layer * lent);
    check(run_on<Engine<>>(gpu, trial, few));
    CHECK(*gpu.loaded == Bytes{0});

    // The device's memory is replaced; what lay beside the blocks stays.
    check(run_on<Engine<>>(gpu, trial, many + 200));
    CHECK(*gpu.loaded == layer * trial.layers());

    const auto same = trial.weights;
    trial.weights = small_weights(SmallModel::llama, ElementType::f32, random());
    const RealResult other = run_on<Engine<>>(gpu, trial, few);
    CHECK(*gpu.loaded == all);
    CHECK(other.outputs != expected.outputs);
    trial.weights = same;
    check(run_on<Engine<>>(gpu, trial, few));
    CHECK(*gpu.loaded == all);
  }
  CHECK(moved > Bytes{0});
  CHECK((sanitized || partly > 0));
}

TEST_CASE("wherever layers were kept, they are reused, and layers that are loaded do not overwrite them") {
  Random random(42);
  std::int64_t loads = 0;
  for (int round = 0; round < (sanitized ? 2 : 8); ++round) {
    RealTrial trial = short_trial(random);
    const OnOneGpu gpu{std::make_shared<EmulatedGpu>(random())};
    const RealResult expected = run_on<Engine<>>(gpu, trial, few_blocks(trial));
    for (int layout = 0; layout < (sanitized ? 2 : 10); ++layout) {
      CAPTURE(round);
      CAPTURE(layout);
      const std::int64_t lost = scatter(*gpu.gpu, trial, random);
      loads += lost;
      const RealResult result = run_on<Engine<>>(gpu, trial, few_blocks(trial));
      CHECK(result.refused == 0);
      CHECK(result.outputs == expected.outputs);
      CHECK(*gpu.loaded == layer_bytes(trial.weights) * lost);
    }
  }
  CHECK(loads > 0);
}

TEST_CASE("with blocks of another size a machine reuses the layers that begin at one of them") {
  Random random(43);
  RealTrial trial = short_trial(random);
  const OnOneGpu gpu{std::make_shared<EmulatedGpu>(random())};
  const std::int64_t blocks = 4 * many_blocks(trial);
  const RealResult expected = run_on<Engine<>>(gpu, trial, blocks);
  std::int64_t reused = 0, misaligned = 0;
  for (const std::int64_t tokens : {8, 2, 16, 4}) {
    CAPTURE(tokens);
    trial.limits.block_tokens = Tokens{tokens};
    const DeviceWeights kept = gpu.gpu->weights();
    CHECK(run_on<Engine<>>(gpu, trial, blocks * 2 / tokens).outputs == expected.outputs);
    const std::int64_t block = kv_block_shape(trial.weights.config.shape, trial.limits.block_tokens, 4).bytes().count();
    const auto begin_at_block = std::count_if(kept.layers.begin(), kept.layers.end(), [&](const auto& part) {
      return part.before_end <= gpu.gpu->device_arena_bytes().count() && part.before_end % block == 0;
    });
    const Bytes layers = layer_bytes(trial.weights) * (trial.layers() - begin_at_block);
    CHECK((*gpu.loaded == layers || *gpu.loaded == layers + trial.weights.outer_bytes())); // another workspace
    reused += begin_at_block;
    misaligned += trial.layers() - begin_at_block;
  }
  CHECK(reused > 0);
  CHECK(misaligned > 0);
}

TEST_CASE("after a failure nothing on the device is reused") {
  Random random(44);
  const RealTrial trial = short_trial(random);
  const OnOneGpu gpu{std::make_shared<EmulatedGpu>(random())};
  (void)run_on<Engine<>>(gpu, trial, many_blocks(trial));
  (void)run_on<Engine<>>(gpu, trial, many_blocks(trial));
  CHECK(*gpu.loaded == Bytes{0});
  gpu.gpu->fail();
  (void)run_on<Engine<>>(gpu, trial, many_blocks(trial));
  CHECK(gpu.gpu->weights().layers.empty());
  (void)run_on<Engine<>>(gpu, trial, many_blocks(trial));
  CHECK(*gpu.loaded == all_bytes(trial.weights));
}

TEST_CASE("two machines cannot use one device, and a machine that loads nothing leaves the weights to the next one") {
  Random random(45);
  const RealTrial trial = short_trial(random);
  const auto gpu = std::make_shared<EmulatedGpu>(random());
  const std::unique_ptr<Decoder> decoder = decoder_of(trial.weights, trial.limits.block_tokens, 1);
  const MachineSetup setup = OnOneGpu{gpu}.setup(trial, *decoder, many_blocks(trial));
  const auto make = [&] {
    return GpuMachine::make(trial.weights, make_kernel_runner(ElementType::f32, gpu, trial.weights, setup), setup, {},
                            gpu, OnOneGpu::element_bytes());
  };
  auto first = make();
  REQUIRE((*first)->load().ok());
  const auto second = make();
  REQUIRE(!second);
  CHECK(second.error().line() == "device memory: another machine uses it; expected one machine at a time");
  *first = nullptr;
  REQUIRE(make()); // loads nothing
  const auto third = make();
  const Bytes before = gpu->given(StreamId::to_device);
  REQUIRE((*third)->load().ok());
  CHECK(gpu->given(StreamId::to_device) == before);
}

TEST_CASE("weights are the same only in the same memory, of the same layout, and with the same outer matrices") {
  const ModelWeights weights = small_weights(SmallModel::llama, ElementType::f32, 46);
  const WeightsIdentity kept(weights);
  CHECK(kept.is_of(weights));
  ModelWeights other = weights;
  other.final_norm = other.embedding;
  CHECK(!kept.is_of(other));
  other = weights;
  std::swap(other.layout.places.front().rows, other.layout.places.front().columns);
  CHECK(!kept.is_of(other));
  other = weights;
  std::swap(other.layers.front(), other.layers.back());
  CHECK(!kept.is_of(other));
  other = weights;
  other.owner = std::make_shared<int>(0);
  CHECK(!kept.is_of(other));
}

} // namespace sluice::testing

// SPDX-License-Identifier: Apache-2.0
// Machine, StreamDevice, CudaMemory, CudaQueue and the kernels together, on a CUDA runtime that is the kernels'
// emulator: for any forced placement, each request has the same bits as alone.
#include "sluice/world/cuda/cudart/cuda_memory.hpp"
#include "sluice/world/cuda/cudart/pinned_weights.hpp"
#include "sluice/world/machine/machine.hpp"
#include "sluice/world/stream/stream_device.hpp"
#include "sluice/world/stream/stream_memory.hpp"

#include "emulate/streams.hpp"
#include "identity/eigen/real_run.hpp"
#include "kernels/machine/cuda_gather.hpp"
#include "kernels/machine/cuda_runner.cuh"
#include "support/looked_at_world.hpp"
#include "support/small_models.hpp"
#include "world/cuda/cudart/runtime.hpp"
#include "world/local/counting_decoder.hpp"
#include <doctest/doctest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace sluice::kernels {

// As nvcc's units define them for a GPU.
template <Kernel K>
Status OnGpu::prepare() {
  return {};
}
template <Kernel K>
Status OnGpu::launch(const typename K::Params& params, CUstream_st* stream) {
  const Grid grid = K::grid(params);
  if (grid.x > 0 && grid.y > 0) testing::runtime_device().launch<K>(testing::stream_number(stream), grid, params);
  return {};
}

} // namespace sluice::kernels

namespace sluice::testing {

/// Only states the sizes of a trial; computes nothing.
std::unique_ptr<Decoder> decoder_of(const ModelWeights& weights, Tokens /*block_tokens*/, int /*threads*/) {
  return std::make_unique<CountingDecoder>(weights.config);
}

namespace {

/// Counts what the link gathers: the runner's uploads are launches of the same kernel.
GatherKernel counted_gather() {
  return {[](std::span<const Copy> copies, CUstream_st* stream) {
    emulated_runtime().gathered += static_cast<std::int64_t>(copies.size());
    return kernels::cuda_gather().launch(copies, stream);
  }};
}

using CudaMachine = Machine<StreamDevice<CudaMemory>>;
using Runner = kernels::CudaRunner<kernels::KernelRunnerConfig{ElementType::f32, 32}>;

struct OnCuda {
  std::uint64_t seed = 1;
  Products products = Products::invariant;
  std::int64_t gathered = 0; ///< the kernel makes copies of fewer bytes
  std::weak_ptr<BackendWorld>* made = nullptr;

  [[nodiscard]] static std::int64_t element_bytes() { return 4; }
  [[nodiscard]] MachineSetup setup(const RealTrial& trial, const Decoder& decoder, std::int64_t kv_blocks) const {
    MachineSetup setup = trial.setup(decoder, kv_blocks);
    setup.products = products;
    const Bytes workspace = kernels::cuda_workspace(trial.weights.config, ElementType::f32, setup);
    const Bytes block = kv_block_shape(trial.weights.config.shape, setup.limits.block_tokens, 4).bytes();
    const LayerBlocks room = stream_kv_blocks(trial.weights, workspace, 4, setup);
    setup.device_memory += block * (kv_blocks - room.count());
    return setup;
  }
  [[nodiscard]] Expected<std::shared_ptr<CudaMachine>> make(const RealTrial& trial,
                                                            const std::unique_ptr<Decoder>& /*decoder*/,
                                                            const MachineSetup& setup, TokenListener listener) const {
    restart_runtime(seed);
    Expected<std::shared_ptr<CudaMemory>> memory = CudaMemory::make();
    if (!memory) return memory.error();
    (*memory)->gather_by(counted_gather(), {gathered, gathered});
    Expected<ModelWeights> weights = pinned_weights(trial.weights, ElementType::f32);
    if (!weights) return weights.error();
    auto runner = std::make_unique<Runner>(*memory, weights->config, kernels::cuda_runner_limits(setup));
    auto machine =
        CudaMachine::make(*std::move(weights), std::move(runner), setup, std::move(listener), *memory, element_bytes());
    if (machine && made != nullptr) *made = *machine;
    return machine;
  }
};

/// Machines one after another on one GPU; each is loaded when it is made.
struct OnOneCuda : OnCuda {
  std::shared_ptr<CudaMemory> memory;
  ModelWeights pinned;
  std::int64_t* loaded = nullptr; ///< bytes

  [[nodiscard]] Expected<std::shared_ptr<CudaMachine>> make(const RealTrial& /*trial*/,
                                                            const std::unique_ptr<Decoder>& /*decoder*/,
                                                            const MachineSetup& setup, TokenListener listener) const {
    auto runner = std::make_unique<Runner>(memory, pinned.config, kernels::cuda_runner_limits(setup));
    auto machine = CudaMachine::make(pinned, std::move(runner), setup, std::move(listener), memory, element_bytes());
    const std::int64_t before = emulated_runtime().copied;
    REQUIRE((*machine)->load().ok());
    *loaded = emulated_runtime().copied - before;
    return machine;
  }
};

#if __has_include(<cublasLt.h>)
constexpr bool has_cublas_lt = true;
#else
constexpr bool has_cublas_lt = false;
#endif

/// Two layers with heads of 32, the smallest that are compiled for a GPU.
ModelWeights weights_of(std::uint64_t seed) {
  DecoderConfig config = small_config(SmallModel::llama);
  config.shape.head_dim = 32;
  return random_weights(config, seed);
}

/// A random trial with weights of its own and room on the host for all KV.
RealTrial cuda_trial(Random& random) {
  RealTrial trial = random_real_trial(random);
  trial.link = {};
  trial.weights = weights_of(random());
  for (auto& prompt : trial.prompts)
    for (std::int32_t& token : prompt) token %= trial.weights.config.shape.vocabulary;
  trial.host_blocks = 2 * trial.all() + 64;
  return trial;
}

} // namespace

TEST_CASE("on a GPU that runs in any order, requests have the same bits as alone") {
  Random random(77);
  Bytes moved{0};
  std::int64_t replayed = 0;
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    RealTrial trial = cuda_trial(random);
    trial.link.each_way = round != 1;
    std::weak_ptr<BackendWorld> machine;
    int iterations = 0, wrong = 0;
    const RealResult result = run_real<Chaos>(
        trial, 11 * trial.largest() / 10 + 2 * trial.layers() + 8,
        [&](auto& config) { // the device's events time the layers
          auto* const looked_at = new LookedAt(machine.lock(), Seconds{1e-3});
          config.backend = Cpu{std::shared_ptr<BackendWorld>(looked_at, [&](LookedAt* world) {
            iterations = world->iterations;
            wrong = world->wrong;
            delete world;
          })};
        },
        {}, OnCuda{.seed = random(), .gathered = round == 2 ? 0 : GatherBelow::all, .made = &machine});
    CHECK(iterations > 10);
    CHECK(wrong == 0);
    CHECK(emulated_runtime().allocations == 0);
    CHECK(emulated_runtime().events == 0);
    CHECK((emulated_runtime().gathered > 0) == (round == 0)); // one lane for both ways has one copy at a time
    CHECK(emulated_runtime().batched > 0);
    CHECK(emulated_runtime().graphs_alive == 0);
    replayed += emulated_runtime().replayed;
    CHECK(result.refused == 0);
    moved += result.moved.to_device.bytes + result.moved.to_host.bytes;
    for (std::size_t i = 0; i < result.outputs.size(); ++i) {
      const RealResult alone = run_real<Engine<>>(
          trial, trial.all(), [](auto&) {}, {i}, OnCuda{random()});
      CHECK(result.outputs[i].tokens == alone.outputs[i].tokens);
      CHECK(result.outputs[i].logits == alone.outputs[i].logits);
      CHECK(!result.outputs[i].tokens.empty());
    }
  }
  CHECK(moved > Bytes{0});
  CHECK(replayed > 0);
}

TEST_CASE(
    "if the driver refuses graphs, at once or for lack of memory, kernels are launched one by one with the same bits") {
  Random random(80);
  RealTrial trial = cuda_trial(random);
  const auto run = [&](auto&& before) {
    return run_real<Engine<>>(
        trial, trial.all(), [&](auto&) { before(emulated_runtime()); }, {}, OnCuda{random()});
  };
  const RealResult with = run([](EmulatedRuntime&) {});
  CHECK(emulated_runtime().replayed > 0);
  const std::int64_t all = emulated_runtime().instantiated;
  CHECK(with.graphs.value().made == all);
  CHECK(with.graphs->replayed == emulated_runtime().replayed);
  CHECK(with.graphs->refused.empty());
  const RealResult without = run([](EmulatedRuntime& runtime) { runtime.graphs = false; });
  CHECK(emulated_runtime().replayed == 0);
  CHECK(without.graphs.value().made == 0);
  CHECK(without.graphs->launched == with.graphs->launched + with.graphs->replayed);
  CHECK(without.graphs->refused.find("cudaErrorStreamCaptureUnsupported") != std::string::npos);
  const RealResult few = run([](EmulatedRuntime& runtime) { runtime.graphs_at_most = 1; });
  CHECK(all > 1);
  CHECK(emulated_runtime().instantiated == 1);
  CHECK(few.graphs.value().made == 1);
  CHECK(few.graphs->refused.find("cudaErrorMemoryAllocation") != std::string::npos);
  CHECK(emulated_runtime().graphs_alive == 0);
  for (std::size_t i = 0; i < with.outputs.size(); ++i) {
    CHECK(without.outputs[i].logits == with.outputs[i].logits);
    CHECK(few.outputs[i].logits == with.outputs[i].logits);
  }
}

TEST_CASE("machines on one GPU load the same weights once, and again where the memory had to grow") {
  Random random(81);
  RealTrial trial = cuda_trial(random);
  restart_runtime(random());
  Expected<std::shared_ptr<CudaMemory>> memory = CudaMemory::make();
  Expected<ModelWeights> pinned = pinned_weights(trial.weights, ElementType::f32);
  REQUIRE((memory && pinned));
  std::int64_t loaded = 0;
  {
    OnOneCuda gpu{{}, *std::move(memory), *std::move(pinned), &loaded};
    const auto run = [&]<class E>(std::int64_t kv_blocks) {
      return run_real<E>(
          trial, kv_blocks, [](auto&) {}, {}, gpu);
    };
    const auto all = [&] {
      Bytes sum = gpu.pinned.outer_bytes();
      for (const TensorPlace& place : gpu.pinned.layout.places) sum += Bytes{place.bytes() * trial.layers()};
      return sum.count();
    };
    const std::int64_t few = 11 * trial.largest() / 10 + 2 * trial.layers() + 8;
    const RealResult first = run.operator()<Engine<>>(trial.all() + few);
    CHECK(loaded == all());
    const std::int64_t allocated = emulated_runtime().allocations;
    const RealResult second = run.operator()<Chaos>(few);
    CHECK(loaded == 0);
    CHECK(emulated_runtime().allocations == allocated);
    CHECK(second.outputs == first.outputs);
    CHECK(second.moved.to_device.copies > 0);
    const RealResult third = run.operator()<Engine<>>(2 * (trial.all() + few));
    CHECK(loaded == all() - gpu.pinned.outer_bytes().count());
    CHECK(emulated_runtime().allocations == allocated);
    CHECK(third.outputs == first.outputs);
    Expected<ModelWeights> other = pinned_weights(weights_of(random()), ElementType::f32);
    REQUIRE(other);
    gpu.pinned = *std::move(other);
    const RealResult fourth = run.operator()<Engine<>>(few);
    CHECK(loaded == all());
    CHECK(fourth.outputs != first.outputs);
  }
  CHECK(emulated_runtime().allocations == 0);
}

TEST_CASE("after losing the GPU nothing in its memory is reused") {
  Random random(82);
  RealTrial trial = cuda_trial(random);
  restart_runtime(random());
  std::int64_t loaded = 0;
  OnOneCuda gpu{{}, *CudaMemory::make(), *pinned_weights(trial.weights, ElementType::f32), &loaded};
  const auto run = [&](std::int64_t lasts) {
    return run_real<Engine<>>(
        trial, trial.all(),
        [&](auto&) {
          if (lasts > 0) emulated_runtime().fails_at = emulated_runtime().calls + lasts;
        },
        {}, gpu);
  };
  CHECK(run(0).refused == 0);
  CHECK(gpu.memory->weights().layers.size() == static_cast<std::size_t>(trial.layers()));
  CHECK(run(100).refused > 0);
  CHECK(!gpu.memory->status());
  CHECK(!gpu.memory->in_use());
  CHECK(gpu.memory->weights().layers.empty());
}

TEST_CASE("cuBLASLt's products are close to the project's own" * doctest::skip(!has_cublas_lt)) {
  Random random(79);
  RealTrial trial = cuda_trial(random);
  const auto run = [&](Products products) {
    return run_real<Engine<>>(
        trial, trial.all(), [](auto&) {}, {}, OnCuda{random(), products});
  };
  const RealResult own = run(Products::invariant);
  CHECK(emulated_runtime().multiplied == 0);
  const RealResult fast = run(Products::fast);
  CHECK(emulated_runtime().multiplied > 0);
  for (std::size_t i = 0; i < own.outputs.size(); ++i) {
    REQUIRE(fast.outputs[i].tokens == own.outputs[i].tokens);
    REQUIRE(!own.outputs[i].logits.empty());
    for (std::size_t at = 0; at < own.outputs[i].logits.size(); ++at)
      CHECK(std::bit_cast<float>(fast.outputs[i].logits[at]) ==
            doctest::Approx(std::bit_cast<float>(own.outputs[i].logits[at])).epsilon(1e-4));
  }
}

TEST_CASE("losing the GPU ends every request, and the program continues") {
  Random random(78);
  for (const std::int64_t lasts : {400, 523, 611, 700, 801, 2000}) { // in the middle of launches, captures and replays
    CAPTURE(lasts);
    RealTrial trial = cuda_trial(random);
    for (std::int64_t& output : trial.outputs) output = 30;
    trial.host_blocks = 2 * trial.all() + 64;
    const RealResult result = run_real<Engine<>>(
        trial, trial.all(), [&](auto&) { emulated_runtime().fails_at = lasts; }, {}, OnCuda{random()});
    CHECK(result.refused > 0);
  }
}

} // namespace sluice::testing

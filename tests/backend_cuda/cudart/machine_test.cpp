// SPDX-License-Identifier: Apache-2.0
// Machine, StreamDevice, CudaMemory, CudaQueue and the kernels together, on a CUDA runtime that is the kernels'
// emulator: whatever is forced, each request's bits are those that it has alone.
#include "sluice/backend/cuda/cudart/cuda_memory.hpp"
#include "sluice/backend/cuda/cudart/pinned_weights.hpp"
#include "sluice/backend/machine/machine.hpp"
#include "sluice/backend/machine/stream_device.hpp"
#include "sluice/backend/machine/stream_memory.hpp"

#include "backend_cuda/cudart/runtime.hpp"
#include "emulate/streams.hpp"
#include "identity/eigen/chaos.hpp"
#include "identity/eigen/real_run.hpp"
#include "kernels/machine/cuda_runner.cuh"
#include "local/counting_decoder.hpp"
#include "support/small_models.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
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

/// Says the sizes of a trial; computes nothing.
std::unique_ptr<Decoder> decoder_of(const ModelWeights& weights, Tokens /*block_tokens*/, int /*threads*/) {
  return std::make_unique<CountingDecoder>(weights.config);
}

namespace {

using Chaos = Engine<ChaosPlacement, EveryStep, ChaosRelief, ChaosRetention>;
using CudaMachine = Machine<StreamDevice<CudaMemory>>;
using Runner = kernels::CudaRunner<kernels::KernelRunnerConfig{ElementType::f32, 32}>;

struct OnCuda {
  std::uint64_t seed = 1;

  [[nodiscard]] static std::int64_t element_bytes() { return 4; }
  [[nodiscard]] MachineSetup setup(const RealTrial& trial, const Decoder& decoder, std::int64_t kv_blocks) const {
    MachineSetup setup = trial.setup(decoder, kv_blocks);
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
    Expected<ModelWeights> weights = pinned_weights(trial.weights, ElementType::f32);
    if (!weights) return weights.error();
    auto runner = std::make_unique<Runner>(*memory, weights->config, kernels::cuda_runner_limits(setup));
    return CudaMachine::make(*std::move(weights), std::move(runner), setup, std::move(listener), *memory,
                             element_bytes());
  }
};

/// Two layers with heads of 32, the smallest that are compiled for a GPU.
ModelWeights weights_of(std::uint64_t seed) {
  DecoderConfig config = small_config(SmallModel::llama);
  config.shape.head_dim = 32;
  return random_weights(config, seed);
}

} // namespace

TEST_CASE("requests on a GPU that runs in any order have the bits that each has alone") {
  Random random(77);
  Bytes moved{0};
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    RealTrial trial = random_real_trial(random);
    trial.link = {};
    trial.link.each_way = round != 1;
    trial.weights = weights_of(random());
    for (auto& prompt : trial.prompts)
      for (std::int32_t& token : prompt) token %= trial.weights.config.shape.vocabulary;
    trial.host_blocks = 2 * trial.all() + 64;
    const RealResult result = run_real<Chaos>(
        trial, 11 * trial.largest() / 10 + 2 * trial.layers() + 8, [](auto&) {}, {}, OnCuda{random()});
    CHECK(emulated_runtime().allocations == 0);
    CHECK(emulated_runtime().events == 0);
    CHECK(emulated_runtime().batched > 0);
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
}

TEST_CASE("a GPU that is lost in the middle ends every request, and the program goes on") {
  Random random(78);
  for (const std::int64_t lasts : {400, 2000}) {
    CAPTURE(lasts);
    RealTrial trial = random_real_trial(random);
    trial.link = {};
    trial.weights = weights_of(random());
    for (auto& prompt : trial.prompts)
      for (std::int32_t& token : prompt) token %= trial.weights.config.shape.vocabulary;
    for (std::int64_t& output : trial.outputs) output = 30;
    trial.host_blocks = 2 * trial.all() + 64;
    const RealResult result = run_real<Engine<>>(
        trial, trial.all(), [&](auto&) { emulated_runtime().fails_at = lasts; }, {}, OnCuda{random()});
    CHECK(result.refused > 0);
  }
}

} // namespace sluice::testing

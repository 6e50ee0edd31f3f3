// SPDX-License-Identifier: Apache-2.0
// Streamed weights come from the staging memory that the device reserved, and from nowhere else.
#include "sluice/world/machine/machine.hpp"
#include "sluice/world/stream/stream_device.hpp"
#include "sluice/world/stream/stream_memory.hpp"

#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/trials.hpp"
#include "support/prompt_memory.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace sluice::testing {
namespace {

/// A device that completes every operation at once, and records each copy's source.
struct OnPrompt {
  std::shared_ptr<PromptMemory> memory = std::make_shared<PromptMemory>();
  LayerSet staged;

  [[nodiscard]] static std::int64_t element_bytes() { return 4; }
  [[nodiscard]] MachineSetup setup(const RealTrial& trial, const Decoder& decoder, std::int64_t kv_blocks) const {
    MachineSetup setup = OnGpu{}.setup(trial, decoder, kv_blocks);
    setup.staged = staged;
    return setup;
  }
  [[nodiscard]] auto make(const RealTrial& trial, std::unique_ptr<Decoder> decoder, const MachineSetup& setup,
                          TokenListener listener) const {
    const Bytes workspace = iteration_buffers(*decoder, setup);
    auto machine =
        Machine<StreamDevice<PromptMemory>>::make(trial.weights, std::make_unique<DecoderRunner>(std::move(decoder)),
                                                  setup, std::move(listener), memory, element_bytes());
    CHECK(memory->host_bytes() == stream_host_bytes(trial.weights, workspace, element_bytes(), setup));
    return machine;
  }
};

} // namespace

TEST_CASE("exactly the staged layers stream, and they are read from nowhere else") {
  Random random(1);
  int unstaged = 0;
  for (int round = 0; round < 10; ++round) {
    CAPTURE(round);
    const RealTrial trial = random_gpu_trial(random);
    const std::vector<RealOutput> expected = alone(trial);
    std::int64_t outer = 0;
    trial.weights.lay_out(1, [&](Matrix OuterWeights::*, std::int64_t) { ++outer; });
    for (const LayerSet staged : {LayerSet::all(trial.layers()), LayerSet::all(trial.layers() - 1), LayerSet{}}) {
      const OnPrompt device{.staged = staged};
      const std::int64_t kv = 11 * trial.largest() / 10 + 2 * trial.layers() + 8;
      const RealResult result = run_real<ChaosStreams>(
          trial, kv, [](auto&) {}, {}, device);
      check_identity(result, expected);
      CHECK(device.memory->inside() > 0);
      if (staged.count() == trial.layers())
        CHECK(device.memory->outside() == outer);
      else
        unstaged += device.memory->outside() > outer ? 1 : 0;
    }
  }
  CHECK(unstaged == 20);
}

TEST_CASE("staged layers of several kinds stream, each as its own layout has it") {
  Random random(2);
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    RealTrial trial = random_gpu_trial(random);
    DecoderConfig config = trial.weights.config;
    config.mlp = MlpKind::experts;
    config.shape.experts = 3;
    config.shape.experts_per_token = 2;
    config.shape.moe_intermediate = 20;
    config.shape.dense.insert(round % trial.layers());
    trial.weights = random_weights(config, random.below(1000));
    const std::vector<RealOutput> expected = alone(trial);
    std::int64_t outer = 0;
    trial.weights.lay_out(1, [&](Matrix OuterWeights::*, std::int64_t) { ++outer; });
    const OnPrompt device{.staged = LayerSet::all(trial.layers())};
    const std::int64_t kv = 11 * trial.largest() / 10 + 2 * trial.layers() + 8;
    const RealResult result = run_real<ChaosStreams>(
        trial, kv, [](auto&) {}, {}, device);
    check_identity(result, expected);
    CHECK(device.memory->outside() == outer);
  }
}

} // namespace sluice::testing

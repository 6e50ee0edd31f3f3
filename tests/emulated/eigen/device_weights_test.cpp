// SPDX-License-Identifier: Apache-2.0
// A machine finds the weights that the machine before it has left on the device, and loads only the others.
#include "emulated/eigen/on_gpu.hpp"
#include "emulated/kernel_runners.hpp"
#include "identity/eigen/chaos_checks.hpp"
#include "support/sanitized.hpp"
#include "support/small_models.hpp"

#include <cstdint>
#include <memory>

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

} // namespace

TEST_CASE("a second machine loads none of the weights that are on the device, and all others") {
  Random random(41);
  std::int64_t partly = 0;
  for (int round = 0; round < (sanitized ? 2 : 12); ++round) {
    CAPTURE(round);
    RealTrial trial = short_trial(random);
    const Bytes all = all_bytes(trial.weights);
    const auto run = [&]<class E>(const OnOneGpu& where, std::int64_t kv_blocks) {
      return run_real<E>(
          trial, kv_blocks, [](auto&) {}, {}, where);
    };
    const std::int64_t few = 11 * trial.largest() / 10 + 2 * trial.layers() + 8, many = few + trial.all() + 100;
    const OnOneGpu fresh{std::make_shared<EmulatedGpu>(random())}, gpu{std::make_shared<EmulatedGpu>(random())};
    const RealResult expected = run.operator()<Engine<>>(fresh, many);
    const auto check = [&](const RealResult& result) {
      CHECK(result.refused == 0);
      CHECK(result.outputs == expected.outputs);
    };

    check(run.operator()<Engine<>>(gpu, many));
    CHECK(*gpu.loaded == all);
    check(run.operator()<Chaos>(gpu, few)); // less memory, and KV that moves
    CHECK(*gpu.loaded == Bytes{0});
    check(run.operator()<With<Chaos, ChaosWeights>>(gpu, few)); // lends weights in its turn
    CHECK(*gpu.loaded == Bytes{0});

    check(run.operator()<Engine<>>(gpu, many)); // what was lent is loaded again, by whole layers
    const std::int64_t layers = *gpu.loaded / layer_bytes(trial.weights);
    CHECK(*gpu.loaded == layer_bytes(trial.weights) * layers);
    CHECK(layers <= trial.layers());
    partly += layers > 0 && layers < trial.layers() ? 1 : 0;
    check(run.operator()<Engine<>>(gpu, few));
    CHECK(*gpu.loaded == Bytes{0});

    check(
        run.operator()<Engine<>>(gpu, many + 200)); // the device's memory is replaced; what lay beside the blocks stays
    CHECK(*gpu.loaded == layer_bytes(trial.weights) * trial.layers());

    const auto same = trial.weights;
    trial.weights = small_weights(SmallModel::llama, ElementType::f32, random());
    const RealResult other = run.operator()<Engine<>>(gpu, few);
    CHECK(*gpu.loaded == all);
    CHECK(other.outputs != expected.outputs);
    trial.weights = same;
    check(run.operator()<Engine<>>(gpu, few));
    CHECK(*gpu.loaded == all);
  }
  CHECK((sanitized || partly > 0));
}

} // namespace sluice::testing

// SPDX-License-Identifier: Apache-2.0
// The machine with this project's kernels on an emulated GPU: every forced placement gives the bits of each request run
// alone.
#include "sluice/policy/transfer/fair_share.hpp"

#include "emulated/eigen/on_gpu.hpp"
#include "emulated/kernel_runners.hpp"
#include "identity/eigen/trials.hpp"
#include "support/counting_runner.hpp"
#include "support/sanitized.hpp"
#include "support/small_models.hpp"

namespace sluice::testing {
namespace {

/// A trial whose layers are kernels in `element`.
struct OnKernels {
  ElementType element = ElementType::f32;
  std::uint64_t seed = 1;
  bool graphs = true;
  std::shared_ptr<CountedRows> counts = std::make_shared<CountedRows>();

  [[nodiscard]] std::int64_t element_bytes() const { return bytes_of(element); }
  [[nodiscard]] MachineSetup setup(const RealTrial& trial, const Decoder& decoder, std::int64_t kv_blocks) const {
    MachineSetup setup = trial.setup(decoder, kv_blocks);
    setup.staged = LayerSet::all(trial.layers());
    setup.graphs = graphs;
    setup.device_memory = device_memory_for(kv_blocks, element, trial.weights, setup);
    return setup;
  }
  [[nodiscard]] Expected<std::shared_ptr<GpuMachine>> make(const RealTrial& trial,
                                                           const std::unique_ptr<Decoder>& /*decoder*/,
                                                           const MachineSetup& setup, TokenListener listener) const {
    auto gpu = std::make_shared<EmulatedGpu>(seed);
    auto runner = make_kernel_runner(element, gpu, trial.weights, setup);
    return GpuMachine::make(trial.weights, std::make_unique<CountingRunner>(std::move(runner), counts), setup,
                            std::move(listener), std::move(gpu), element_bytes());
  }
};

constexpr int most_rounds = sanitized ? 1 : 4; // under the sanitizers each CUDA thread has a stack of its own

/// Two requests of a few tokens; a trial as drawn takes minutes.
void shorten(RealTrial& trial) {
  trial.prompts.resize(2);
  trial.outputs.assign(2, 3);
  trial.arrivals.assign(2, 0);
  for (std::size_t i = 0; i < 2; ++i) trial.prompts[i].resize(5 + i, 1);
  trial.limits.batch = 2;
}

/// A trial with these weights.
RealTrial kernel_trial(Random& random, ElementType element, SmallModel model, bool short_one) {
  RealTrial trial = random_gpu_trial(random);
  if (short_one) shorten(trial);
  trial.weights = small_weights(model, element, random());
  const int vocabulary = trial.weights.config.shape.vocabulary;
  for (auto& prompt : trial.prompts)
    for (std::int32_t& token : prompt) token %= vocabulary;
  trial.host_blocks = 2 * trial.all() + 64;
  return trial;
}

template <class E>
void check_kernels(ElementType element, SmallModel model, std::uint64_t seed, int rounds) {
  Random random(seed);
  RealExercise exercise;
  std::int64_t restored = 0; // rows that started from hidden states
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    const RealTrial trial = kernel_trial(random, element, model, sanitized);
    std::vector<RealOutput> expected(trial.prompts.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = run_real<Engine<>>(
                        trial, trial.all(), [](auto&) {}, {i}, OnKernels{element, random()})
                        .outputs[i];
    const OnKernels kernels{element, random()};
    const RealResult result = run_real<E>(
        trial, 11 * trial.largest() / 10 + 2 * trial.layers() + 8, [](auto&) {}, {}, kernels);
    restored += kernels.counts->restored;
    CHECK(result.refused == 0);
    check_identity(result, expected);
    exercise.add(result);
  }
  CHECK(exercise.bytes > 0);
  CHECK((sanitized || restored > 0));
}

} // namespace

TEST_CASE("f32 kernels compute the same bits, wherever the blocks are") {
  check_kernels<Chaos>(ElementType::f32, SmallModel::llama, 31, most_rounds);
}
TEST_CASE("bf16 kernels compute the same bits, wherever the blocks are") {
  check_kernels<ChaosShares>(ElementType::bf16, SmallModel::llama, 32, most_rounds);
}
TEST_CASE("kernels compute the same bits from hidden states that stay on the device") {
  check_kernels<ChaosKeeps>(ElementType::bf16, SmallModel::llama, 34, most_rounds);
}
TEST_CASE("kernels compute the same bits while other weights stream in every step" * doctest::skip(sanitized)) {
  check_kernels<ChaosStreams>(ElementType::bf16, SmallModel::mixtral, 33, most_rounds);
}

TEST_CASE("a step in which nothing moves is a graph of its layers and one of its samples; otherwise each layer is one" *
          doctest::skip(sanitized)) {
  Random random(34);
  RealTrial trial = kernel_trial(random, ElementType::f32, SmallModel::llama, true);
  const auto run = [&]<class E>(int tokens, bool graphs, std::int64_t kv_blocks = 0) {
    trial.outputs.assign(2, tokens);
    trial.host_blocks = 2 * trial.all() + 64;
    return run_real<E>(
        trial, kv_blocks > 0 ? kv_blocks : trial.all(), [](auto&) {}, {},
        OnKernels{ElementType::f32, random(), graphs});
  };
  const auto sequences = [](const RealResult& result) { return result.graphs->replayed + result.graphs->launched; };
  const RealResult expected = run.operator()<Engine<>>(20, false), resident = run.operator()<Engine<>>(20, true);
  CHECK(expected.graphs->replayed == 0);
  CHECK(resident.outputs == expected.outputs);
  CHECK(resident.moved.to_device.copies + resident.moved.to_host.copies == 0);
  // A table that is new is uploaded with its layer. The ten steps that the longer outputs take have no new one.
  const RealResult sooner = run.operator()<Engine<>>(10, true);
  CHECK(resident.steps == sooner.steps + 10);
  CHECK(resident.graphs->replayed == sooner.graphs->replayed + 20);
  CHECK(resident.graphs->launched == sooner.graphs->launched);
  const RealResult moving = run.operator()<Chaos>(20, true, 11 * trial.largest() / 10 + 2 * trial.layers() + 8);
  CHECK(moving.moved.to_device.copies > 0);
  CHECK(sequences(moving) > moving.steps);
}

} // namespace sluice::testing

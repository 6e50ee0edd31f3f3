// SPDX-License-Identifier: Apache-2.0
// An emulated device with random execution order, on which the trials of tests/identity/trials run.
#include "sluice/model/decoder/eigen/make_decoder.hpp"

#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/trials.hpp"

namespace sluice::testing {

namespace {

/// A trial on an emulated device that counts its rows.
struct CountedOnGpu : OnGpu {
  std::shared_ptr<CountedRows> counts;

  [[nodiscard]] Expected<std::shared_ptr<GpuMachine>> make(const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                                           const MachineSetup& setup, TokenListener listener) const {
    auto gpu = std::make_shared<EmulatedGpu>(seed);
    auto runner = std::make_unique<EnqueuedDecoder>(std::move(decoder), gpu);
    runner->set_block_tokens(trial.limits.block_tokens);
    return GpuMachine::make(trial.weights, std::make_unique<CountingRunner>(std::move(runner), counts), setup,
                            std::move(listener), std::move(gpu), std::int64_t{4});
  }
};

RealResult run_emulated(const RealTrial& trial, std::int64_t kv_blocks, const MakeReal& make,
                        const std::vector<std::size_t>& only, Random& random, std::shared_ptr<CountedRows> counts) {
  const OnGpu gpu{random()};
  if (!counts) return run_trial(trial, kv_blocks, make, only, gpu);
  return run_trial(trial, kv_blocks, make, only, CountedOnGpu{gpu, std::move(counts)});
}

} // namespace

std::unique_ptr<Decoder> decoder_of(const ModelWeights& weights, Tokens block_tokens, int threads) {
  return make_decoder(weights, block_tokens, threads);
}

const Device& this_device() {
  static constexpr Device device{&random_gpu_trial, &run_emulated, 25, false};
  return device;
}

} // namespace sluice::testing

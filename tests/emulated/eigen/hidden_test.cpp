// SPDX-License-Identifier: Apache-2.0
// Hidden states on a device with drawn order.
#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/hidden_checks.hpp"

namespace sluice::testing {

namespace {

/// A trial on an emulated device that counts its rows.
struct CountedOnGpu : OnGpu {
  std::shared_ptr<CountedRows> counts;

  CountedOnGpu(std::uint64_t drawn, std::shared_ptr<CountedRows> into) : OnGpu{drawn}, counts(std::move(into)) {}

  [[nodiscard]] Expected<std::shared_ptr<GpuMachine>> make(const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                                           const MachineSetup& setup, TokenListener listener) const {
    auto gpu = std::make_shared<EmulatedGpu>(seed);
    auto runner = std::make_unique<EnqueuedDecoder>(std::move(decoder), gpu);
    runner->set_block_tokens(trial.limits.block_tokens);
    return GpuMachine::make(trial.weights, std::make_unique<CountingRunner>(std::move(runner), counts), setup,
                            std::move(listener), std::move(gpu), std::int64_t{4});
  }
};

} // namespace

TEST_CASE(
    "HCache, KVPR, AptServe, and eLLM with hidden states on the host, change no bit on a device with drawn order") {
  Random seeds(9);
  check_hidden_systems<GpuTrials>(6, 12, [&](const std::shared_ptr<CountedRows>& counts) {
    return CountedOnGpu{seeds(), counts};
  });
}

} // namespace sluice::testing

// SPDX-License-Identifier: Apache-2.0
// OnGpu: trials of a real machine on an emulated device.
#pragma once

#include "emulated/eigen/enqueued_decoder.hpp"
#include "emulated/eigen/gpu.hpp"
#include "emulated/kernel_runners.hpp"
#include "identity/eigen/real_run.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace sluice::testing {

/// A device whose order `seed` determines.
struct OnGpu {
  std::uint64_t seed = 1;

  [[nodiscard]] static std::int64_t element_bytes() { return 4; }

  [[nodiscard]] MachineSetup setup(const RealTrial& trial, const Decoder& decoder, std::int64_t kv_blocks) const {
    MachineSetup setup = trial.setup(decoder, kv_blocks);
    setup.device_memory =
        device_memory_for(kv_blocks, iteration_buffers(decoder, setup), ElementType::f32, trial.weights, setup);
    for (int layer = 0; layer < trial.layers(); ++layer) // the device may copy directly from half of the images
      if ((seed >> (8 + layer) & 1) != 0) setup.staged.insert(layer);
    return setup;
  }
  [[nodiscard]] Expected<std::shared_ptr<GpuMachine>> make(const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                                           const MachineSetup& setup, TokenListener listener) const {
    auto gpu = std::make_shared<EmulatedGpu>(seed);
    auto runner = std::make_unique<EnqueuedDecoder>(std::move(decoder), gpu);
    runner->set_block_tokens(trial.limits.block_tokens);
    return GpuMachine::make(trial.weights, std::move(runner), setup, std::move(listener), std::move(gpu),
                            std::int64_t{4});
  }
};

/// A trial for an emulated device: one thread, and no more host memory than the trial can use.
inline RealTrial random_gpu_trial(Random& random) {
  RealTrial trial = random_real_trial(random);
  trial.threads = 1;
  trial.link.to_device_bytes_per_s = trial.link.to_host_bytes_per_s = 0; // no bandwidth limit
  trial.host_blocks = 2 * trial.all() + 64;
  return trial;
}

} // namespace sluice::testing

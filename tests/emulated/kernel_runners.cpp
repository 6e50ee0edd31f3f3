// SPDX-License-Identifier: Apache-2.0
#include "emulated/kernel_runners.hpp"

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/model_runner.hpp"

#include "emulate/kernel_queue.hpp"
#include "kernels/decoder/kernel_runner.hpp"

#include <cstddef>
#include <span>
#include <utility>

namespace sluice {
template class Machine<StreamDevice<testing::EmulatedGpu>>;
}

namespace sluice::testing {

namespace {

kernels::KernelRunnerLimits limits_of(const MachineSetup& setup) {
  kernels::KernelRunnerLimits limits;
  limits.block_tokens = setup.limits.block_tokens;
  limits.graph_rows = setup.graphs ? 16 : 0;
  return limits;
}

/// A runner that checks at the end of each iteration whether the emulator reports kernel errors.
template <ElementType element>
class Runner final : public ForwardingRunner {
 public:
  using Kernels = kernels::KernelRunner<emulate::KernelQueue, kernels::KernelRunnerConfig{element, 16}>;

  Runner(std::shared_ptr<EmulatedGpu> gpu, const ModelWeights& weights, const MachineSetup& setup)
      : gpu_(std::move(gpu)),
        kernels_(emulate::KernelQueue{gpu_->device(), EmulatedGpu::number(StreamId::compute)}, weights.config,
                 limits_of(setup)) {
    forward_to(kernels_);
  }

  static Bytes needs(const ModelWeights& weights, const MachineSetup& setup) {
    return Kernels::workspace(weights.config, limits_of(setup), setup.rows(), setup.limits.batch);
  }
  [[nodiscard]] std::span<const std::int32_t> tokens() override {
    const std::span<const std::int32_t> tokens = kernels_.tokens();
    SLUICE_ASSERT(gpu_->device().report().ok(), "kernels that the emulator has nothing to say of");
    return tokens;
  }

 private:
  std::shared_ptr<EmulatedGpu> gpu_;
  Kernels kernels_;
};

} // namespace

std::unique_ptr<ModelRunner> make_kernel_runner(ElementType element, std::shared_ptr<EmulatedGpu> gpu,
                                                const ModelWeights& weights, const MachineSetup& setup) {
  if (element == ElementType::f32) return std::make_unique<Runner<ElementType::f32>>(std::move(gpu), weights, setup);
  SLUICE_ASSERT(element == ElementType::bf16, "f32 or bf16");
  return std::make_unique<Runner<ElementType::bf16>>(std::move(gpu), weights, setup);
}

Bytes kernel_workspace(ElementType element, const ModelWeights& weights, const MachineSetup& setup) {
  return element == ElementType::f32 ? Runner<ElementType::f32>::needs(weights, setup)
                                     : Runner<ElementType::bf16>::needs(weights, setup);
}

} // namespace sluice::testing

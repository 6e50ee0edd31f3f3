// SPDX-License-Identifier: Apache-2.0
// CudaRunner: a KernelRunner on a GPU's compute stream, which reports a failed GPU.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/world/cuda/cudart/cuda_memory.hpp"

#include "kernels/decoder/cuda_queue.cuh"
#include "kernels/decoder/kernel_runner.hpp"
#include "kernels/machine/cuda_runner.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sluice::kernels {

/// With the number of the current device's SMs. A failed question leaves the default: it affects only speed.
[[nodiscard]] inline KernelRunnerLimits on_this_card(KernelRunnerLimits limits) {
  int device = 0, sms = 0;
  if (cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device) == cudaSuccess && sms > 0)
    limits.sms = sms;
  return limits;
}

/// After a GPU failure the data in the host's memory is invalid, so tokens are -1 and logits 0.
template <KernelRunnerConfig config_>
class CudaRunner final : public ForwardingRunner {
 public:
  CudaRunner(std::shared_ptr<CudaMemory> memory, const DecoderConfig& config, const KernelRunnerLimits& limits)
      : memory_(std::move(memory)), kernels_(CudaQueue{memory_}, config, on_this_card(limits)) {
    forward_to(kernels_);
  }

  [[nodiscard]] std::span<const std::int32_t> tokens() override {
    const std::span<const std::int32_t> tokens = kernels_.tokens();
    if (memory_->status()) return tokens;
    none_.assign(tokens.size(), -1);
    return none_;
  }
  [[nodiscard]] std::span<const float> logits(std::size_t sample) override {
    const std::span<const float> logits = kernels_.logits(sample);
    if (memory_->status()) return logits;
    zeros_.assign(logits.size(), 0);
    return zeros_;
  }
  [[nodiscard]] Status status() override { return memory_->check(); }

 private:
  std::shared_ptr<CudaMemory> memory_;
  KernelRunner<CudaQueue, config_> kernels_;
  std::vector<std::int32_t> none_;
  std::vector<float> zeros_;
};

namespace detail {

template <ElementType element, std::size_t at = 0>
[[nodiscard]] std::unique_ptr<ModelRunner> cuda_runner(std::shared_ptr<CudaMemory> memory, const DecoderConfig& config,
                                                       const KernelRunnerLimits& limits) {
  if constexpr (at < runner_head_dims.size()) {
    constexpr int head_dim = runner_head_dims[at];
    if (config.shape.head_dim == head_dim)
      return std::make_unique<CudaRunner<KernelRunnerConfig{element, head_dim}>>(std::move(memory), config, limits);
    return cuda_runner<element, at + 1>(std::move(memory), config, limits);
  } else {
    SLUICE_ASSERT(false, "a head size with a runner");
    return nullptr;
  }
}

} // namespace detail

template <ElementType element>
std::unique_ptr<ModelRunner> CudaRunners<element>::make(std::shared_ptr<CudaMemory> memory, const DecoderConfig& config,
                                                        const KernelRunnerLimits& limits) {
  return detail::cuda_runner<element>(std::move(memory), config, limits);
}

} // namespace sluice::kernels

// SPDX-License-Identifier: Apache-2.0
#include "kernels/machine/cuda_machine.hpp"

#include "sluice/world/cuda/cudart/cuda_memory.hpp"
#include "sluice/world/cuda/cudart/measure_gather.hpp"
#include "sluice/world/cuda/cudart/pinned_weights.hpp"
#include "sluice/world/machine/machine.hpp"
#include "sluice/world/stream/stream_device.hpp"

#include "kernels/machine/cuda_gather.hpp"
#include "kernels/machine/cuda_runner.hpp"
#include "kernels/needs.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

using CudaMachine = Machine<StreamDevice<CudaMemory>>;

Status kernels::check_model(const DecoderConfig& config, ElementType element) {
  const std::vector<std::string> exceeded = kernels::exceeded_limits(config, element);
  if (!exceeded.empty()) return Error{ErrorCode::unsupported, "cuda", exceeded.front(), ""};
  const auto& sizes = kernels::runner_head_dims;
  const int head_dim = config.shape.head_dim;
  if (std::find(sizes.begin(), sizes.end(), head_dim) == sizes.end()) {
    std::string all;
    for (const int size : sizes)
      all += (all.empty() ? "" : size == sizes.back() ? " or " : ", ") + std::to_string(size);
    return Error{ErrorCode::unsupported, "cuda", "the model has heads of " + std::to_string(head_dim),
                 "heads of " + all};
  }
  return {};
}

Status kernels::prepare_kernels(const DecoderConfig& config, ElementType element) {
  Status first;
  kernels::each_needed_kernel(config, element, [&]<class Config>(const Config& wanted) {
    if (!first) return;
    const auto kernel = kernels::find_kernel(wanted);
    first = kernel ? kernel->prepare() : Status{kernel.error()};
  });
  return first;
}

Expected<CudaDevice> open_cuda(const std::optional<GatherBelow>& gather) {
  Expected<std::shared_ptr<CudaMemory>> memory = CudaMemory::make();
  if (!memory) return memory.error();
  if (Status status = kernels::prepare_cuda_gather(); !status) return status.error();
  Expected<GatherMeasured> gathered = gather ? GatherMeasured{*gather} : measure_gather(kernels::cuda_gather());
  if (!gathered) return gathered.error();
  (*memory)->gather_by(kernels::cuda_gather(), gathered->below);
  cudaDeviceProp properties{};
  if (Status status = status_of(cudaGetDeviceProperties(&properties, 0), "cuda: the GPU's properties"); !status)
    return status.error();
  std::size_t free = 0, all = 0;
  if (Status status = status_of(cudaMemGetInfo(&free, &all), "cuda: the GPU's memory"); !status) return status.error();
  return CudaDevice{*std::move(memory), properties.name, Bytes{static_cast<std::int64_t>(all)},
                    Bytes{static_cast<std::int64_t>(free)}, *gathered};
}

Status check_cuda(const CudaDevice& device) { return device.memory->check(); }

Expected<ModelWeights> cuda_weights(const ModelWeights& weights, ElementType element) {
  if (Status status = kernels::check_model(weights.config, element); !status) return status.error();
  return pinned_weights(weights, element);
}

Expected<std::shared_ptr<TokenWorld>> make_cuda_machine(const CudaDevice& device, ModelWeights weights,
                                                        const MachineSetup& setup, TokenListener listener) {
  const ElementType element = weights.embedding.type;
  if (Status status = kernels::check_model(weights.config, element); !status) return status.error();
  if (Status status = kernels::prepare_kernels(weights.config, element); !status) return status.error();
  std::unique_ptr<ModelRunner> runner =
      kernels::make_cuda_runner(element, device.memory, weights.config, kernels::cuda_runner_limits(setup));
  Expected<std::shared_ptr<CudaMachine>> machine =
      CudaMachine::make(std::move(weights), std::move(runner), setup, std::move(listener), device.memory,
                        std::int64_t{bytes_of(element)});
  if (!machine) return machine.error();
  if (!device.memory->status()) return device.memory->status().error();
  return std::shared_ptr<TokenWorld>{*std::move(machine)};
}

Expected<std::shared_ptr<TokenWorld>> make_cuda_machine(const ModelWeights& weights, ElementType element,
                                                        const MachineSetup& setup, TokenListener listener) {
  Expected<CudaDevice> device = open_cuda();
  if (!device) return device.error();
  Expected<ModelWeights> pinned = cuda_weights(weights, element);
  if (!pinned) return pinned.error();
  return make_cuda_machine(*device, *std::move(pinned), setup, std::move(listener));
}

} // namespace sluice

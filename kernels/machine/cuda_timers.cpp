// SPDX-License-Identifier: Apache-2.0
#include "sluice/world/cuda/cudart/cuda_memory.hpp"

#include "kernels/machine/cuda_machine.hpp"
#include "kernels/machine/cuda_runner.hpp"

#include <utility>

namespace sluice {

Expected<std::unique_ptr<BatchTimer>> cuda_batch_timer(const ModelWeights& weights, const MachineSetup& setup,
                                                       const TimerRoom& room) {
  const ElementType element = weights.embedding.type;
  Expected<std::shared_ptr<CudaMemory>> memory = CudaMemory::make();
  if (!memory) return memory.error();
  if (Status status = kernels::check_model(weights.config, element); !status) return status.error();
  if (Status status = kernels::prepare_kernels(weights.config, element); !status) return status.error();
  auto timer = RunnerTimer<CudaMemory>::make(
      *memory, kernels::make_cuda_runner(element, *memory, weights.config, kernels::cuda_runner_limits(setup)), weights,
      room);
  if (!timer) return timer.error();
  if (!(*memory)->status()) return (*memory)->status().error();
  return std::unique_ptr<BatchTimer>(*std::move(timer));
}

Expected<std::unique_ptr<CopyTimer>> cuda_copy_timer(Bytes arena) {
  const Expected<CudaDevice> device = open_cuda(); // small copies are made as a machine makes them
  if (!device) return device.error();
  auto timer = StreamCopyTimer<CudaMemory>::make(device->memory, arena);
  if (!timer) return timer.error();
  if (!device->memory->status()) return device->memory->status().error();
  return std::unique_ptr<CopyTimer>(*std::move(timer));
}

Status cuda_status() { return status_of(cudaDeviceSynchronize(), "cuda: what was measured"); }

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// The GPU memory that a CUDA machine takes. It is also in builds without CUDA, which replay runs of a GPU.
#include "sluice/world/stream/stream_memory.hpp"

#include "kernels/machine/cuda_machine.hpp"
#include "kernels/machine/cuda_runner.hpp"

#include <cstdint>

namespace sluice {

MemoryNeeds cuda_needs(const ModelWeights& weights, const MachineSetup& setup) {
  const ElementType element = weights.embedding.type;
  MemoryNeeds needs;
  needs.buffers = kernels::cuda_workspace(weights.config, element, setup);
  needs.block = kv_block_shape(weights.config.shape, setup.limits.block_tokens, bytes_of(element)).bytes();
  // All memory that KV cannot use: the remainder that stream_kv_blocks leaves of a large enough memory.
  MachineSetup ample = setup;
  const std::int64_t blocks = 1 + 4 * weights.config.shape.layers * (1 + weights.layout.bytes / needs.block);
  ample.hidden_blocks = LayerBlocks{0}; // the code that divides the memory adds them
  ample.device_memory = bytes_beside(weights, needs.buffers) + needs.block * blocks;
  const LayerBlocks kv = stream_kv_blocks(weights, needs.buffers, bytes_of(element), ample);
  needs.weights = ample.device_memory - needs.buffers - needs.block * kv.count();
  return needs;
}

} // namespace sluice

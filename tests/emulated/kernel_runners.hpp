// SPDX-License-Identifier: Apache-2.0
// GpuMachine: a machine on an emulated GPU, compiled once for the programs that run one. make_kernel_runner: a small
// model whose passes are this project's kernels, on its compute stream.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/machine/machine.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/stream/stream_device.hpp"
#include "sluice/world/stream/stream_memory.hpp"

#include "emulated/eigen/gpu.hpp"

#include <cstdint>
#include <memory>

namespace sluice::testing {

using GpuMachine = Machine<StreamDevice<EmulatedGpu>>;

} // namespace sluice::testing

namespace sluice {
extern template class Machine<StreamDevice<testing::EmulatedGpu>>;
}

namespace sluice::testing {

/// Compiled separately: the kernels of each element take seconds to compile. `setup` bounds the rows of an iteration.
std::unique_ptr<ModelRunner> make_kernel_runner(ElementType element, std::shared_ptr<EmulatedGpu> gpu,
                                                const ModelWeights& weights, const MachineSetup& setup);
/// The device memory in which such a runner computes.
Bytes kernel_workspace(ElementType element, const ModelWeights& weights, const MachineSetup& setup);

/// Device memory for `kv_blocks`, the weights and a workspace.
inline Bytes device_memory_for(std::int64_t kv_blocks, Bytes workspace, ElementType element,
                               const ModelWeights& weights, MachineSetup setup) {
  setup.device_memory = Bytes{0};
  const std::int64_t beside = -stream_kv_blocks(weights, workspace, bytes_of(element), setup).count();
  const std::int64_t block = kv_block_floats(weights.config.shape, setup.limits.block_tokens) * bytes_of(element);
  return Bytes{(kv_blocks + beside) * block};
}
inline Bytes device_memory_for(std::int64_t kv_blocks, ElementType element, const ModelWeights& weights,
                               const MachineSetup& setup) {
  return device_memory_for(kv_blocks, kernel_workspace(element, weights, setup), element, weights, setup);
}

} // namespace sluice::testing

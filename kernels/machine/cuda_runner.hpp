// SPDX-License-Identifier: Apache-2.0
// make_cuda_runner: a model's passes on a GPU, with kernels for one of three element types.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/world/machine/machine_setup.hpp"

#include "kernels/decoder/runner_room.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

namespace sluice {

class CudaMemory;

namespace kernels {

/// The head sizes with a runner.
inline constexpr std::array runner_head_dims{32, 64, 80, 96, 128, 192, 256};

/// With more rows, a layer takes so long that its launches cost nothing.
inline constexpr int most_graph_rows = 256;

/// Each element's runners are compiled in a separate unit.
template <ElementType element>
struct CudaRunners {
  /// On the compute stream of `memory`. `config` has one of these head sizes.
  [[nodiscard]] static std::unique_ptr<ModelRunner> make(std::shared_ptr<CudaMemory> memory,
                                                         const DecoderConfig& config, const KernelRunnerLimits& limits);
};

[[nodiscard]] inline std::unique_ptr<ModelRunner> make_cuda_runner(ElementType element,
                                                                   std::shared_ptr<CudaMemory> memory,
                                                                   const DecoderConfig& config,
                                                                   const KernelRunnerLimits& limits) {
  switch (element) {
  case ElementType::f32:
    return CudaRunners<ElementType::f32>::make(std::move(memory), config, limits);
  case ElementType::f16:
    return CudaRunners<ElementType::f16>::make(std::move(memory), config, limits);
  case ElementType::bf16:
    break;
  }
  return CudaRunners<ElementType::bf16>::make(std::move(memory), config, limits);
}

/// Depends only on a setup's limits, since memory is divided after a runner's needs are known. A layer's table has room
/// for the blocks of a batch of the longest requests, and for as many of requests that only keep rebuilt KV.
[[nodiscard]] inline KernelRunnerLimits cuda_runner_limits(const MachineSetup& setup) {
  KernelRunnerLimits limits;
  limits.block_tokens = setup.limits.block_tokens;
  limits.products = setup.products;
  limits.graph_rows = setup.graphs ? most_graph_rows : 0;
  const std::int64_t longest = blocks_for(setup.limits.max_context, limits.block_tokens).count();
  limits.table_blocks = std::max(limits.table_blocks, 2 * setup.limits.batch * longest);
  return limits;
}
[[nodiscard]] inline Bytes cuda_workspace(const DecoderConfig& config, ElementType element, const MachineSetup& setup) {
  return Bytes{
      RunnerRoom{config, bytes_of(element), cuda_runner_limits(setup), setup.rows(), setup.limits.batch}.bytes};
}

} // namespace kernels
} // namespace sluice

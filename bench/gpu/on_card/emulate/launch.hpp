// SPDX-License-Identifier: Apache-2.0
// launch, as tests/emulate has it, on a GPU: found before the emulator's header, so that the tests of tests/kernels, as
// they are, ask the kernels that nvcc compiled. Memory is the host's, pinned (arena.cpp): what a test allocates a
// kernel reads.
#pragma once

#include "emulate/report.hpp"
#include "kernels/lookup.hpp"
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace sluice::emulate {

inline constexpr bool watched_for_races = false;

/// The seed is nobody's: a GPU draws its own orders. What the driver says is the report's error.
template <kernels::BlockProgram K>
Report launch(kernels::Grid grid, const typename K::Params& params, std::uint64_t /*seed*/,
              const Limits& /*limits*/ = {}) {
  Report report;
  if (grid.x == 0 || grid.y == 0) return report;
  static const Status prepared = kernels::OnGpu::prepare<K>();
  Status status = prepared;
  if (status.ok()) status = kernels::OnGpu::launch<K>(params, nullptr);
  if (!status.ok()) report.errors.push_back(status.error().line());
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess)
    report.errors.push_back(std::string{cudaGetErrorName(error)} + ", " + cudaGetErrorString(error));
  return report;
}

} // namespace sluice::emulate

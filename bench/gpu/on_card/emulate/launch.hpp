// SPDX-License-Identifier: Apache-2.0
// launch on a GPU, with the interface of tests/emulate. This header precedes the emulator's in the include path, so the
// tests of tests/kernels run unchanged with the kernels that nvcc compiled. Tests allocate pinned host memory
// (arena.cpp), which kernels can read.
#pragma once

#include "emulate/report.hpp"
#include "kernels/lookup.hpp"
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace sluice::emulate {

inline constexpr bool watched_for_races = false;

/// Ignores the seed: a GPU chooses its own order. The report's error is the driver's.
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

// SPDX-License-Identifier: Apache-2.0
// Launcher: a kernel on a GPU's stream, with the limits of the launch checked and the driver's error as this project's.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/type_name.hpp"

#include "kernels/cuda_cta.cuh"
#include <cuda_runtime.h>

#include <string>

namespace sluice::kernels {

/// Whether the error ended the context: every later call gives the same one, until the process ends.
[[nodiscard]] inline bool ends_context(cudaError_t error) {
  switch (error) {
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchFailure:
  case cudaErrorLaunchTimeout:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorECCUncorrectable:
    return true;
  default:
    return false;
  }
}

/// What the driver said, or nothing. `where`: what was asked of it.
[[nodiscard]] inline Status status_of(cudaError_t error, std::string where) {
  if (error == cudaSuccess) return {};
  const std::string said = std::string{cudaGetErrorName(error)} + ", " + cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) {
    return Error{ErrorCode::out_of_memory, std::move(where), said, "as much free memory as was asked for"};
  }
  if (ends_context(error)) {
    return Error{ErrorCode::unsupported, std::move(where),
                 said + ", of this or of earlier work: the process can use the device no more",
                 "a process that begins anew"};
  }
  return Error{ErrorCode::unsupported, std::move(where), said, "a driver and a device that can run it"};
}

/// Launches one kernel. Made once per device: a shared memory of more than 48 KiB has to be allowed first.
template <Kernel K>
class Launcher {
 public:
  static constexpr std::size_t shared_bytes = sizeof(typename K::Shared);

  [[nodiscard]] static Expected<Launcher> make() {
    if (const Status allowed =
            status_of(cudaFuncSetAttribute(run_kernel<K>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(shared_bytes)),
                      std::to_string(shared_bytes) + " bytes of shared memory for " + std::string{type_name<K>()});
        !allowed.ok())
      return allowed.error();
    return Launcher{};
  }

  /// Enqueues the kernel. A grid without a block is nothing to do; one beyond CUDA's limits is an error.
  [[nodiscard]] Status operator()(Grid grid, const typename K::Params& params, cudaStream_t stream) const {
    return launch(grid, params, stream);
  }

  /// The same, for who keeps no Launcher but made one on this device before.
  [[nodiscard]] static Status launch(Grid grid, const typename K::Params& params, cudaStream_t stream) {
    if (grid.x == 0 || grid.y == 0) return {};
    if (grid.x < 0 || grid.y < 0 || grid.y > 65535) {
      return Error{ErrorCode::bad_input, std::string{type_name<K>()},
                   "a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " blocks",
                   "at most 2147483647 x 65535"};
    }
    // Not `<<<>>>` and cudaGetLastError(): that also gives what an earlier call of anybody's left behind.
    cudaLaunchConfig_t config{};
    config.gridDim = dim3{static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)};
    config.blockDim = dim3{K::threads};
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    void* arguments[] = {const_cast<typename K::Params*>(&params)}; // which are read, not written
    return status_of(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(run_kernel<K>), arguments),
                     std::string{type_name<K>()});
  }

 private:
  Launcher() = default;
};

} // namespace sluice::kernels

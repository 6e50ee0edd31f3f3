// SPDX-License-Identifier: Apache-2.0
// Launcher: launches a kernel on a GPU's stream and checks the launch's limits. OnGpu's functions, for generated units.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/world/cuda/cudart/driver.hpp"

#include "kernels/cuda_cta.cuh"
#include "kernels/lookup.hpp"
#include <cuda_runtime.h>

#include <string>

namespace sluice::kernels {

using sluice::status_of; // beside those of libraries

/// Launches one kernel. Make one per device: shared memory of more than 48 KiB must be enabled first.
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

  /// Enqueues the kernel. An empty grid launches nothing; one beyond CUDA's limits is an error.
  [[nodiscard]] Status operator()(Grid grid, const typename K::Params& params, cudaStream_t stream) const {
    return launch(grid, params, stream);
  }

  /// The same without a Launcher, if one was made on this device before.
  [[nodiscard]] static Status launch(Grid grid, const typename K::Params& params, cudaStream_t stream) {
    if (grid.x == 0 || grid.y == 0) return {};
    if (grid.x < 0 || grid.y < 0 || grid.y > 65535) {
      return Error{ErrorCode::bad_input, std::string{type_name<K>()},
                   "a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " blocks",
                   "at most 2147483647 x 65535"};
    }
    // Not `<<<>>>` with cudaGetLastError(), which also returns errors of any earlier call.
    cudaLaunchConfig_t config{};
    config.gridDim = dim3{static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)};
    config.blockDim = dim3{K::threads};
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    void* arguments[] = {const_cast<typename K::Params*>(&params)}; // the driver only reads them
    return status_of(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(run_kernel<K>), arguments),
                     std::string{type_name<K>()});
  }

 private:
  Launcher() = default;
};

// OnGpu's functions, for the units that the build generates from kernels/configs.cmake; each instantiates some of them.
template <Kernel K>
Status OnGpu::prepare() {
  const Expected<Launcher<K>> launcher = Launcher<K>::make();
  return launcher ? Status{} : launcher.error();
}

template <Kernel K>
Status OnGpu::launch(const typename K::Params& params, CUstream_st* stream) {
  return Launcher<K>::launch(K::grid(params), params, stream);
}

} // namespace sluice::kernels

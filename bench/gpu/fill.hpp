// SPDX-License-Identifier: Apache-2.0
// fill: writes Numbers with a kernel on the device. The host would take tens of seconds for the inputs of `rates`.
#pragma once

#include "drawn.hpp"
#include <cuda_runtime_api.h>

namespace gpu_bench {

/// Enqueues a kernel that writes the numbers 0 to `count` - 1 to `to`.
template <sluice::kernels::Element T>
cudaError_t fill(T* to, std::uint64_t count, const Numbers& numbers, cudaStream_t stream);

} // namespace gpu_bench

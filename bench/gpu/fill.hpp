// SPDX-License-Identifier: Apache-2.0
// fill: the device's own kernel for Numbers. The host would take tens of seconds for what `rates` is given.
#pragma once

#include "drawn.hpp"
#include <cuda_runtime_api.h>

namespace gpu_bench {

/// Enqueues that `count` numbers are written from `to` on: those from number 0 on.
template <sluice::kernels::Element T>
cudaError_t fill(T* to, std::uint64_t count, const Numbers& numbers, cudaStream_t stream);

} // namespace gpu_bench

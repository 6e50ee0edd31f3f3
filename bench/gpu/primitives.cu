// SPDX-License-Identifier: Apache-2.0
// PrimitiveKernel, compiled by nvcc.
#include "kernels/cuda_scan.cuh"
#include "kernels/launch.cuh"
#include "primitive_kernel.hpp"

namespace sluice::kernels {
template Status OnGpu::prepare<gpu_bench::PrimitiveKernel>();
template Status OnGpu::launch<gpu_bench::PrimitiveKernel>(const gpu_bench::PrimitiveParams&, CUstream_st*);
} // namespace sluice::kernels

// SPDX-License-Identifier: Apache-2.0
// fill, compiled by nvcc.
#include "fill.hpp"

namespace gpu_bench {
namespace {

template <class T>
__global__ void fill_numbers(T* to, std::uint64_t count, Numbers numbers) {
  for (std::uint64_t i = blockIdx.x * 256ULL + threadIdx.x; i < count; i += gridDim.x * 256ULL)
    to[i] = numbers.stored<T>(i);
}

} // namespace

template <sluice::kernels::Element T>
cudaError_t fill(T* to, std::uint64_t count, const Numbers& numbers, cudaStream_t stream) {
  fill_numbers<T><<<2048, 256, 0, stream>>>(to, count, numbers);
  return cudaGetLastError();
}
template cudaError_t fill(float*, std::uint64_t, const Numbers&, cudaStream_t);
template cudaError_t fill(sluice::kernels::F16*, std::uint64_t, const Numbers&, cudaStream_t);
template cudaError_t fill(sluice::kernels::Bf16*, std::uint64_t, const Numbers&, cudaStream_t);

} // namespace gpu_bench

// SPDX-License-Identifier: Apache-2.0
// CudaCheckMemory: the memory of shows_invariance on a card.
#pragma once

#include "kernels/launch.cuh"
#include "kernels/products/shows_invariance.hpp"
#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <span>

namespace sluice::kernels {

struct CudaCheckMemory {
  struct Free {
    void operator()(std::byte* memory) const { cudaFree(memory); }
  };
  using Owned = std::unique_ptr<std::byte, Free>;

  [[nodiscard]] Expected<Owned> holding(std::span<const std::byte> bytes) const {
    void* memory = nullptr;
    if (const Status got = status_of(cudaMalloc(&memory, bytes.size()), "memory for a product's check"); !got.ok())
      return got.error();
    Owned owned{static_cast<std::byte*>(memory)};
    if (const Status copied = status_of(cudaMemcpy(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                                        "numbers for a product's check");
        !copied.ok())
      return copied.error();
    return Expected<Owned>{std::move(owned)};
  }
  [[nodiscard]] Status copy(std::byte* to, const std::byte* from, std::size_t bytes, cudaStream_t stream) const {
    return status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "a product's check");
  }
  [[nodiscard]] Status read(std::span<std::byte> into, const std::byte* from, cudaStream_t stream) const {
    if (Status got = status_of(cudaMemcpyAsync(into.data(), from, into.size(), cudaMemcpyDeviceToHost, stream),
                               "a product's check");
        !got.ok())
      return got;
    return status_of(cudaStreamSynchronize(stream), "a product's check");
  }
};

static_assert(CheckMemory<CudaCheckMemory, cudaStream_t>);

} // namespace sluice::kernels

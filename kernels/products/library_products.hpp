// SPDX-License-Identifier: Apache-2.0
// LibraryProducts: cuBLASLt's products on a CUDA stream, for code that is compiled without that library's headers.
#pragma once

#include "sluice/core/expected.hpp"

#include "kernels/products/product.hpp"

#include <cstddef>
#include <memory>
#include <span>

struct CUstream_st; // a cudaStream_t points to one

namespace sluice::kernels {

/// The Product `CublasLt` behind a virtual call, whose cost is negligible next to a product's microseconds; runners
/// compile in the same way with and without the library.
class LibraryProducts {
 public:
  LibraryProducts() = default;
  LibraryProducts(const LibraryProducts&) = delete;
  LibraryProducts& operator=(const LibraryProducts&) = delete;
  virtual ~LibraryProducts() = default;

  virtual Status operator()(CUstream_st* stream, const ProductCall& call) = 0;
};

/// On the calling thread's GPU. `workspace`: memory of that GPU, at a multiple of 256 bytes, which the products use.
/// Errors: the build has no cuBLASLt, this machine has none, or the library refuses the GPU.
[[nodiscard]] Expected<std::unique_ptr<LibraryProducts>> make_library_products(std::span<std::byte> workspace);

} // namespace sluice::kernels

// SPDX-License-Identifier: Apache-2.0
#include "kernels/products/library_products.hpp"

#include "sluice/core/units.hpp"

#include "kernels/products/cublas_lt.cuh"

#include <cstdint>
#include <utility>

namespace sluice::kernels {

namespace {

class LtProducts final : public LibraryProducts {
 public:
  explicit LtProducts(CublasLt library) : library_(std::move(library)) {}
  Status operator()(CUstream_st* stream, const ProductCall& call) override { return library_(stream, call); }

 private:
  CublasLt library_;
};

} // namespace

Expected<std::unique_ptr<LibraryProducts>> make_library_products(std::span<std::byte> workspace) {
  Expected<CublasLt> library = CublasLt::make({workspace.data(), Bytes{static_cast<std::int64_t>(workspace.size())}});
  if (!library) {
    return Error{library.error().code, "cuda: fast products", library.error().what,
                 "cuBLAS of CUDA 13, in a folder of LD_LIBRARY_PATH if nowhere else, or invariant products"};
  }
  return std::unique_ptr<LibraryProducts>{std::make_unique<LtProducts>(*std::move(library))};
}

} // namespace sluice::kernels

// SPDX-License-Identifier: Apache-2.0
// The functions of library_products.hpp, for builds whose toolkit has no cuBLASLt.
#include "kernels/products/library_products.hpp"

namespace sluice::kernels {

Expected<std::unique_ptr<LibraryProducts>> make_library_products(std::span<std::byte> /*workspace*/) {
  return Error{ErrorCode::unsupported, "cuda: fast products", "this program was built without cuBLASLt",
               "a build whose CUDA Toolkit has cublasLt.h, or invariant products"};
}

} // namespace sluice::kernels

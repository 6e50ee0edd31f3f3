// SPDX-License-Identifier: Apache-2.0
// CublasLt: the fast Product. Its rows may depend on how many there are.
#pragma once

#include "kernels/products/bucketed_product.hpp"
#include "kernels/products/lt_matmul.cuh"

#include <utility>

namespace sluice::kernels {

/// Products by cublasLtMatmul, with the algorithm that its heuristic names.
class CublasLt : public BucketedProduct<CublasLtLibrary> {
 public:
  /// What the library's makers recommend for compute capability 9.0; less is enough on others.
  static constexpr Bytes wanted_workspace{32 << 20};

  [[nodiscard]] static Expected<CublasLt> make(LtWorkspace workspace) {
    Expected<CublasLtLibrary> library = CublasLtLibrary::make(workspace);
    if (!library) return library.error();
    return CublasLt{*std::move(library)};
  }

 private:
  using BucketedProduct::BucketedProduct;
};

static_assert(Product<CublasLt>);

} // namespace sluice::kernels

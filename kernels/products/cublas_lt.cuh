// SPDX-License-Identifier: Apache-2.0
// CublasLt: the fast Product. A row's bits may depend on the number of rows.
#pragma once

#include "kernels/products/bucketed_product.hpp"
#include "kernels/products/lt_matmul.cuh"

#include <utility>

namespace sluice::kernels {

/// Products by cublasLtMatmul, with the algorithm of its heuristic.
class CublasLt : public BucketedProduct<CublasLtLibrary> {
 public:
  /// NVIDIA's recommendation for compute capability 9.0; less is enough on others.
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

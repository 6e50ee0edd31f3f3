// SPDX-License-Identifier: Apache-2.0
// PinnedCublasLt: cuBLASLt with one algorithm for each matrix, whatever the rows.
#pragma once

#include "kernels/products/lt_matmul.cuh"
#include "kernels/products/pinned_product.hpp"

#include <string>
#include <utility>

namespace sluice::kernels {

class PinnedCublasLt : public PinnedProduct<CublasLtLibrary> {
 public:
  /// `rows`: number of rows for which algorithms are chosen, as in a usual step.
  [[nodiscard]] static Expected<PinnedCublasLt> make(LtWorkspace workspace, int rows) {
    if (rows < 1) return Error{ErrorCode::bad_input, "rows of a usual step", std::to_string(rows), "at least 1"};
    Expected<CublasLtLibrary> library = CublasLtLibrary::make(workspace);
    if (!library) return library.error();
    return PinnedCublasLt{*std::move(library), rows};
  }

 private:
  using PinnedProduct::PinnedProduct;
};

static_assert(Product<PinnedCublasLt>);

} // namespace sluice::kernels

// SPDX-License-Identifier: Apache-2.0
// PinnedCublasLt: cuBLASLt with one algorithm for each matrix, whatever the rows.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "kernels/products/lt_matmul.cuh"
#include "kernels/products/product.hpp"

#include <compare>
#include <map>
#include <utility>

namespace sluice::kernels {

/// Products by cublasLtMatmul with an algorithm that is chosen once for each matrix, for `rows` rows, among those that
/// split no sum and reduce none, and is then kept: what changes with the number of rows is how many tiles there are.
///
/// Whether rows then keep their bits is the library's secret (a kernel may treat the last tile otherwise than the
/// others), so the class does not promise it: `invariant` is false, `shows_invariance` asks a card, and `Invariant`
/// uses this class for the shapes that a card has shown.
///
/// Weights in two places are two calls with the matrix's one algorithm, which needs results of 16-byte alignment: a
/// split at other outputs than multiples of 8 is refused. Another algorithm for it would be other bits, silently.
class PinnedCublasLt {
 public:
  using Stream = cudaStream_t;
  static constexpr bool invariant = false;

  /// `rows`: for which algorithms are chosen: those of a usual step.
  [[nodiscard]] static Expected<PinnedCublasLt> make(LtWorkspace workspace, int rows) {
    if (rows < 1) return Error{ErrorCode::bad_input, "rows of a usual step", std::to_string(rows), "at least 1"};
    Expected<LtHandle> handle = LtHandle::make();
    if (!handle) return handle.error();
    return PinnedCublasLt{*std::move(handle), workspace, rows};
  }

  Status operator()(Stream stream, const ProductCall& call) {
    if (call.rows == 0) return {};
    const Key key{call.outputs, call.inputs, call.element, call.bias != nullptr, call.accumulate, call.wide};
    auto at = pinned_.find(key);
    if (at == pinned_.end()) {
      Expected<LtAlgorithm> algorithm = choose(call);
      if (!algorithm) return algorithm.error();
      at = pinned_.emplace(key, *algorithm).first;
    }
    for (const ProductCall& part : parts_of(call)) {
      Expected<LtMatmul> matmul = LtMatmul::of(part);
      if (!matmul) return matmul.error();
      for (const std::uint32_t aligned : matmul->alignment()) {
        if (aligned < alignment)
          return Error{ErrorCode::bad_input, name_of(part),
                       "a matrix at a multiple of " + std::to_string(aligned) + " bytes",
                       "multiples of 16: a split at a multiple of 8 outputs"};
      }
      if (Status done = status_of(matmul->run(handle_.get(), workspace_, at->second, stream), name_of(part));
          !done.ok())
        return done;
    }
    return {};
  }
  [[nodiscard]] Bytes workspace() const { return workspace_.bytes; }

 private:
  static constexpr std::uint32_t alignment = 16;

  struct Key {
    int outputs, inputs;
    ElementType element;
    bool biased, accumulate, wide;
    auto operator<=>(const Key&) const = default;
  };

  PinnedCublasLt(LtHandle handle, LtWorkspace workspace, int rows)
      : handle_(std::move(handle)), workspace_(workspace), rows_(rows) {}

  [[nodiscard]] Expected<LtAlgorithm> choose(ProductCall call) const {
    call.rows = rows_;
    call.w = ProductWeights::whole(call.w.head != nullptr ? call.w.head : call.w.tail, call.outputs);
    Expected<LtMatmul> matmul = LtMatmul::of(call);
    if (!matmul) return matmul.error();
    Expected<std::vector<LtAlgorithm>> found =
        matmul->algorithms(handle_.get(), workspace_.bytes, {alignment, alignment, alignment}, true);
    if (!found) return found.error();
    return found->front();
  }

  LtHandle handle_;
  LtWorkspace workspace_;
  int rows_;
  std::map<Key, LtAlgorithm> pinned_;
};

static_assert(Product<PinnedCublasLt>);

} // namespace sluice::kernels

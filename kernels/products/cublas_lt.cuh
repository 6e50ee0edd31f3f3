// SPDX-License-Identifier: Apache-2.0
// CublasLt: the fast Product. Its rows may depend on how many there are.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "kernels/products/lt_matmul.cuh"
#include "kernels/products/product.hpp"

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <map>
#include <utility>

namespace sluice::kernels {

/// Products by cublasLtMatmul, with the algorithm that its heuristic names for the shape. Asking costs microseconds of
/// the host's time, as much as a launch, so that answers are kept: for a row count rounded up to a power of two, with
/// all that an algorithm depends on beside it. Where an algorithm does not fit a row count of its bucket, that row
/// count gets an answer of its own.
///
/// Not invariant: the heuristic names other tiles and other splits of the sums for other row counts.
class CublasLt {
 public:
  using Stream = cudaStream_t;
  static constexpr bool invariant = false;
  /// What the library's makers recommend for compute capability 9.0; less is enough on others.
  static constexpr Bytes wanted_workspace{32 << 20};

  [[nodiscard]] static Expected<CublasLt> make(LtWorkspace workspace) {
    Expected<LtHandle> handle = LtHandle::make();
    if (!handle) return handle.error();
    return CublasLt{*std::move(handle), workspace};
  }

  Status operator()(Stream stream, const ProductCall& call) {
    if (call.rows == 0) return {};
    for (const ProductCall& part : parts_of(call))
      if (Status done = multiply(stream, part); !done.ok()) return done;
    return {};
  }
  [[nodiscard]] Bytes workspace() const { return workspace_.bytes; }

 private:
  struct Key {
    int rows, outputs, inputs;
    bool own; ///< of this row count alone
    ElementType element;
    bool biased, accumulate, wide;
    std::int64_t x_stride, y_stride;
    std::array<std::uint32_t, 3> aligned;
    auto operator<=>(const Key&) const = default;
  };

  CublasLt(LtHandle handle, LtWorkspace workspace) : handle_(std::move(handle)), workspace_(workspace) {}

  Status multiply(Stream stream, const ProductCall& call) {
    Expected<LtMatmul> matmul = LtMatmul::of(call);
    if (!matmul) return matmul.error();
    Key key{call.rows,       call.outputs, call.inputs,   true,          call.element,       call.bias != nullptr,
            call.accumulate, call.wide,    call.x_stride, call.y_stride, matmul->alignment()};
    if (const auto own = known_.find(key); own != known_.end())
      return status_of(matmul->run(handle_.get(), workspace_, own->second, stream), name_of(call));

    ProductCall bucket = call;
    bucket.rows = static_cast<int>(std::bit_ceil(static_cast<unsigned>(call.rows)));
    Key of_bucket = key;
    of_bucket.rows = bucket.rows;
    of_bucket.own = false;
    auto at = known_.find(of_bucket);
    if (at == known_.end()) {
      Expected<LtAlgorithm> algorithm = ask(bucket, key.aligned);
      if (!algorithm) return algorithm.error();
      at = known_.emplace(of_bucket, *algorithm).first;
    }
    const cublasStatus_t said = matmul->run(handle_.get(), workspace_, at->second, stream);
    if (said != CUBLAS_STATUS_NOT_SUPPORTED && said != CUBLAS_STATUS_INVALID_VALUE)
      return status_of(said, name_of(call));

    Expected<LtAlgorithm> algorithm = ask(call, key.aligned);
    if (!algorithm) return algorithm.error();
    known_.emplace(key, *algorithm);
    return status_of(matmul->run(handle_.get(), workspace_, *algorithm, stream), name_of(call));
  }

  [[nodiscard]] Expected<LtAlgorithm> ask(const ProductCall& call, std::array<std::uint32_t, 3> aligned) const {
    Expected<LtMatmul> matmul = LtMatmul::of(call);
    if (!matmul) return matmul.error();
    Expected<std::vector<LtAlgorithm>> found = matmul->algorithms(handle_.get(), workspace_.bytes, aligned, false);
    if (!found) return found.error();
    return found->front();
  }

  LtHandle handle_;
  LtWorkspace workspace_;
  std::map<Key, LtAlgorithm> known_;
};

static_assert(Product<CublasLt>);

} // namespace sluice::kernels

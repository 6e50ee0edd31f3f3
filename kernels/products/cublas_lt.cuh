// SPDX-License-Identifier: Apache-2.0
// CublasLt: the fast Product, by cuBLASLt as a MatmulLibrary. A row's bits may depend on the number of rows.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "kernels/products/bucketed_product.hpp"
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::kernels {

// CublasLtLibrary: cuBLASLt as a MatmulLibrary. LtMatmul: a product in its terms, and its search for an algorithm.

/// The library's status as an error, or Ok.
[[nodiscard]] inline Status status_of(cublasStatus_t status, const std::string& where) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return Error{status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::out_of_memory : ErrorCode::unsupported, where,
               std::string{cublasLtGetStatusName(status)} + ", " + cublasLtGetStatusString(status), ""};
}
/// The same for a product, whose name is only made for an error, so that successful products allocate nothing.
[[nodiscard]] inline Status status_of(cublasStatus_t status, const ProductCall& call) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return status_of(status, name_of(call));
}

/// The library's context on the device that is current when it is made.
class LtHandle {
 public:
  [[nodiscard]] static Expected<LtHandle> make() {
    cublasLtHandle_t handle = nullptr;
    if (const Status made = status_of(cublasLtCreate(&handle), "cublasLtCreate"); !made.ok()) return made.error();
    return LtHandle{handle};
  }
  [[nodiscard]] cublasLtHandle_t get() const { return handle_.get(); }

 private:
  explicit LtHandle(cublasLtHandle_t handle) : handle_(handle) {}
  struct Destroy {
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  };
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, Destroy> handle_;
};

/// Device memory that the library may use while it multiplies. Not owned: the product's creator provides it.
struct LtWorkspace {
  void* data = nullptr; ///< 256-byte aligned
  Bytes bytes{0};
};

/// An algorithm with its settings. A named struct around the library's type, which has no name: nvcc 13 stops with an
/// internal error when a container destroys such objects.
struct LtAlgorithm {
  cublasLtMatmulAlgo_t of;
};

/// One call of cublasLtMatmul, for a product whose weights are in one place. The library's matrices are column-major:
/// our row-major y = x W^T is its y = W x with W transposed, and its epilogue adds `bias`.
///
/// Sums and epilogue are in f32 (CUBLAS_COMPUTE_32F). The library uses TF32 only with CUBLAS_COMPUTE_32F_FAST_TF32, so
/// products of f32 keep all of their bits.
class LtMatmul {
 public:
  [[nodiscard]] static Expected<LtMatmul> of(const ProductCall& call) {
    LtMatmul made;
    made.call_ = call;
    if (Status offered = library_offers(call); !offered.ok()) return offered.error();
    const cudaDataType_t narrow = call.element == ElementType::f32   ? CUDA_R_32F
                                  : call.element == ElementType::f16 ? CUDA_R_16F
                                                                     : CUDA_R_16BF;
    const cudaDataType_t result = call.wide ? CUDA_R_32F : narrow;
    const auto size = [](std::int64_t count) { return static_cast<std::uint64_t>(count); };
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = call.bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const std::array<cublasStatus_t, 7> said{
        cublasLtMatmulDescInit(&made.operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        cublasLtMatmulDescSetAttribute(&made.operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
        cublasLtMatmulDescSetAttribute(&made.operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
        cublasLtMatmulDescSetAttribute(&made.operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &call.bias,
                                       sizeof call.bias),
        cublasLtMatrixLayoutInit(&made.w_, narrow, size(call.inputs), size(call.outputs), call.inputs),
        cublasLtMatrixLayoutInit(&made.x_, narrow, size(call.inputs), size(call.rows), call.x_stride),
        cublasLtMatrixLayoutInit(&made.y_, result, size(call.outputs), size(call.rows), call.y_stride)};
    for (const cublasStatus_t one : said)
      if (Status status = status_of(one, call); !status.ok()) return status.error();
    return made;
  }

  /// Algorithms for it, the fastest by the library's estimate first. `aligned`: alignments of the pointers of W, x and
  /// y.
  [[nodiscard]] Expected<std::vector<LtAlgorithm>> algorithms(cublasLtHandle_t handle, Bytes workspace,
                                                              const Alignments& aligned) const {
    cublasLtMatmulPreferenceOpaque_t wanted;
    const auto most = static_cast<std::uint64_t>(workspace.count());
    const auto set = [&wanted](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return cublasLtMatmulPreferenceSetAttribute(&wanted, attribute, &value, sizeof value);
    };
    const std::array<cublasStatus_t, 6> said{cublasLtMatmulPreferenceInit(&wanted),
                                             set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most),
                                             set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned[0]),
                                             set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned[1]),
                                             set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned[2]),
                                             set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned[2])};
    for (const cublasStatus_t one : said)
      if (Status status = status_of(one, call_); !status.ok()) return status.error();

    std::array<cublasLtMatmulHeuristicResult_t, 16> results{};
    int count = 0;
    if (Status found =
            status_of(cublasLtMatmulAlgoGetHeuristic(handle, &operation_, &w_, &x_, &y_, &y_, &wanted,
                                                     static_cast<int>(results.size()), results.data(), &count),
                      call_);
        !found.ok())
      return found.error();
    std::vector<LtAlgorithm> algorithms;
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& one = results[static_cast<std::size_t>(i)];
      if (one.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back({one.algo});
    }
    if (algorithms.empty()) {
      return Error{ErrorCode::unsupported, name_of(call_), "no algorithm within the workspace",
                   "a workspace of more than " + std::to_string(workspace.count()) + " bytes, or own tiles"};
    }
    return algorithms;
  }

  /// Enqueues it. Returns the library's own status, for callers that may try another algorithm.
  [[nodiscard]] cublasStatus_t run(cublasLtHandle_t handle, const LtWorkspace& workspace, const LtAlgorithm& algorithm,
                                   cudaStream_t stream) const {
    const float one = 1;
    const float keep = call_.accumulate ? 1 : 0;
    return cublasLtMatmul(handle, &operation_, &one, call_.w.head, &w_, call_.x, &x_, &keep, call_.y, &y_, call_.y, &y_,
                          &algorithm.of, workspace.data, static_cast<std::size_t>(workspace.bytes.count()), stream);
  }

 private:
  LtMatmul() = default;

  ProductCall call_;
  // The library takes descriptors by non-const pointers although it only reads them.
  mutable cublasLtMatmulDescOpaque_t operation_{};
  mutable cublasLtMatrixLayoutOpaque_t w_{}, x_{}, y_{};
};

/// cuBLASLt on the device that is current when it is made.
class CublasLtLibrary {
 public:
  using Stream = cudaStream_t;
  using Algorithm = LtAlgorithm;

  [[nodiscard]] static Expected<CublasLtLibrary> make(LtWorkspace workspace) {
    Expected<LtHandle> handle = LtHandle::make();
    if (!handle) return handle.error();
    return CublasLtLibrary{*std::move(handle), workspace};
  }

  [[nodiscard]] Expected<std::vector<LtAlgorithm>> algorithms(const ProductCall& call,
                                                              const Alignments& aligned) const {
    Expected<LtMatmul> matmul = LtMatmul::of(call);
    if (!matmul) return matmul.error();
    return matmul->algorithms(handle_.get(), workspace_.bytes, aligned);
  }
  [[nodiscard]] LibraryAnswer run(const ProductCall& call, const LtAlgorithm& algorithm, cudaStream_t stream) const {
    Expected<LtMatmul> matmul = LtMatmul::of(call);
    if (!matmul) return {false, matmul.error()};
    const cublasStatus_t said = matmul->run(handle_.get(), workspace_, algorithm, stream);
    return {said == CUBLAS_STATUS_NOT_SUPPORTED || said == CUBLAS_STATUS_INVALID_VALUE, status_of(said, call)};
  }
  [[nodiscard]] Bytes workspace() const { return workspace_.bytes; }

 private:
  CublasLtLibrary(LtHandle handle, LtWorkspace workspace) : handle_(std::move(handle)), workspace_(workspace) {}

  LtHandle handle_;
  LtWorkspace workspace_;
};

static_assert(MatmulLibrary<CublasLtLibrary>);

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

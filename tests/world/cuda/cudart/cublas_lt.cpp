// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLASLt that kernels/products/cublas_lt.cuh calls, with the library's conventions (column-major
// matrices), as host functions in a stream of the kernels' emulator.
#include "emulate/streams.hpp"
#include "kernels/element.hpp"
#include "world/cuda/cudart/runtime.hpp"
#include <cublasLt.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

using namespace sluice::kernels;

struct Operation {
  cublasComputeType_t compute = CUBLAS_COMPUTE_16F;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct Layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t stride;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
};
struct Algorithm {
  std::int32_t parts; ///< into which a sum is split
};

template <class Mine, class Opaque>
void put(Opaque* into, const Mine& mine) {
  static_assert(sizeof(Mine) <= sizeof(Opaque));
  std::memcpy(static_cast<void*>(into), &mine, sizeof mine);
}
template <class Mine, class Opaque>
Mine get(const Opaque* from) {
  Mine mine;
  std::memcpy(static_cast<void*>(&mine), from, sizeof mine);
  return mine;
}

/// A call's arguments; values behind pointers to host memory are copied at once.
struct Job {
  Operation operation;
  Layout a, b, d;
  Algorithm algorithm;
  const void *a_at, *b_at;
  void *d_at, *workspace;
  std::size_t workspace_bytes;
  float alpha, beta;
};

template <class T, class Y>
void multiply(const Job& job) {
  if (job.algorithm.parts > 1) std::memset(job.workspace, 0x7b, job.workspace_bytes);
  for (std::uint64_t column = 0; column < job.d.columns; ++column) {
    for (std::uint64_t row = 0; row < job.d.rows; ++row) {
      const T* const a = static_cast<const T*>(job.a_at) + row * static_cast<std::uint64_t>(job.a.stride);
      const T* const b = static_cast<const T*>(job.b_at) + column * static_cast<std::uint64_t>(job.b.stride);
      float sum = 0;
      for (std::int32_t part = 0; part < job.algorithm.parts; ++part) {
        float of_part = 0;
        for (auto k = static_cast<std::uint64_t>(part); k < job.a.rows;
             k += static_cast<std::uint64_t>(job.algorithm.parts))
          of_part += widen(a[k]) * widen(b[k]);
        sum += of_part;
      }
      Y* const to = static_cast<Y*>(job.d_at) + column * static_cast<std::uint64_t>(job.d.stride) + row;
      sum *= job.alpha;
      if (job.operation.epilogue == CUBLASLT_EPILOGUE_BIAS)
        sum += widen(static_cast<const T*>(job.operation.bias)[row]);
      if (job.beta != 0) sum += job.beta * widen(*to);
      *to = narrow<Y>(sum);
    }
  }
}

template <class T>
void multiply(const Job& job) {
  return job.d.type == CUDA_R_32F ? multiply<T, float>(job) : multiply<T, T>(job);
}

bool multiplies(const Operation& operation, const Layout& a, const Layout& b, const Layout& d) {
  return operation.compute == CUBLAS_COMPUTE_32F && operation.a == CUBLAS_OP_T && operation.b == CUBLAS_OP_N &&
         a.type == b.type && (d.type == a.type || d.type == CUDA_R_32F) && a.rows == b.rows && a.columns == d.rows &&
         b.columns == d.columns && a.stride >= static_cast<std::int64_t>(a.rows) &&
         b.stride >= static_cast<std::int64_t>(b.rows) && d.stride >= static_cast<std::int64_t>(d.rows);
}

} // namespace

struct cublasLtContext {};

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t /*status*/) { return "CUBLAS_STATUS_NOT_INITIALIZED"; }
const char* cublasLtGetStatusString(cublasStatus_t /*status*/) { return "the library was not initialized"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (!sluice::testing::emulated_runtime().has_cublas_lt) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext{};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t into, std::size_t /*size*/,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  Operation operation;
  operation.compute = compute;
  put(into, operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t into, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t size) {
  auto operation = get<Operation>(into);
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    std::memcpy(&operation.a, value, size);
    break;
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    std::memcpy(&operation.epilogue, value, size);
    break;
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    std::memcpy(&operation.bias, value, size);
    break;
  default:
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  put(into, operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t into, std::size_t /*size*/, cudaDataType type,
                                                 std::uint64_t rows, std::uint64_t columns, std::int64_t stride) {
  put(into, Layout{type, rows, columns, stride});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t into, std::size_t /*size*/) {
  put(into, Preference{});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t into,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t size) {
  auto preference = get<Preference>(into);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) std::memcpy(&preference.workspace, value, size);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) std::memcpy(&preference.schemes, value, size);
  put(into, preference);
  return CUBLAS_STATUS_SUCCESS;
}

/// With few rows the sums are split, if the workspace allows it.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t of,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wanted, int /*most*/,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  const auto layout = get<Layout>(d);
  if (!multiplies(get<Operation>(of), get<Layout>(a), get<Layout>(b), layout)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto preference = get<Preference>(wanted);
  const bool may_split =
      preference.schemes != CUBLASLT_REDUCTION_SCHEME_NONE && preference.workspace > 0 && layout.columns <= 8;
  results[0] = {};
  put(&results[0].algo, Algorithm{may_split ? 4 : 1});
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* of,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    std::size_t size, std::size_t* written) {
  const auto algorithm = get<Algorithm>(of);
  const std::uint32_t scheme =
      algorithm.parts > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
  if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
    std::memcpy(value, &algorithm.parts, size);
  else
    std::memcpy(value, &scheme, size);
  *written = size;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t of, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t /*c_layout*/, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  Job job{get<Operation>(of),
          get<Layout>(a_layout),
          get<Layout>(b_layout),
          get<Layout>(d_layout),
          get<Algorithm>(algorithm),
          a,
          b,
          d,
          workspace,
          workspace_bytes,
          0,
          0};
  std::memcpy(&job.alpha, alpha, sizeof job.alpha);
  std::memcpy(&job.beta, beta, sizeof job.beta);
  if (!multiplies(job.operation, job.a, job.b, job.d) || c != d) return CUBLAS_STATUS_INVALID_VALUE;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  sluice::testing::give(stream, [job] {
    switch (job.a.type) {
    case CUDA_R_32F:
      return multiply<float>(job);
    case CUDA_R_16F:
      return multiply<F16>(job);
    default:
      return multiply<Bf16>(job);
    }
  });
  ++sluice::testing::emulated_runtime().multiplied;
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"

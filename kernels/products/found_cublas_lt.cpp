// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLASLt that this project calls, loaded from the library at the first call. A program linked with
// the library itself (some 500 MB, which invariant products never use) would not even start without it.
#include <cublasLt.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

#define SLUICE_TEXT_OF(number) #number
#define SLUICE_TEXT(number) SLUICE_TEXT_OF(number)

namespace {

/// Loads the library by its name in this build's toolkit.
void* library() {
  static void* const opened = dlopen("libcublasLt.so." SLUICE_TEXT(CUBLAS_VER_MAJOR), RTLD_NOW | RTLD_LOCAL);
  return opened;
}

/// The library's function of the same name as `own`.
template <auto own>
decltype(own) found(const char* name) {
  static const auto at = library() == nullptr ? nullptr : reinterpret_cast<decltype(own)>(dlsym(library(), name));
  return at;
}

template <auto own, class... Given>
cublasStatus_t call(const char* name, Given... given) {
  const auto function = found<own>(name);
  return function == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : function(given...);
}

} // namespace

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t status) {
  const auto function = found<&cublasLtGetStatusName>("cublasLtGetStatusName");
  return function == nullptr ? "no library" : function(status);
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  const auto function = found<&cublasLtGetStatusString>("cublasLtGetStatusString");
  return function == nullptr ? "libcublasLt.so." SLUICE_TEXT(CUBLAS_VER_MAJOR) " is not where programs find libraries"
                             : function(status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return call<&cublasLtCreate>("cublasLtCreate", handle); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return call<&cublasLtDestroy>("cublasLtDestroy", handle); }

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t description, std::size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  return call<&cublasLtMatmulDescInit_internal>("cublasLtMatmulDescInit_internal", description, size, compute, scale);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t size) {
  return call<&cublasLtMatmulDescSetAttribute>("cublasLtMatmulDescSetAttribute", description, attribute, value, size);
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t size, cudaDataType type,
                                                 std::uint64_t rows, std::uint64_t columns, std::int64_t stride) {
  return call<&cublasLtMatrixLayoutInit_internal>("cublasLtMatrixLayoutInit_internal", layout, size, type, rows,
                                                  columns, stride);
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, std::size_t size) {
  return call<&cublasLtMatmulPreferenceInit_internal>("cublasLtMatmulPreferenceInit_internal", preference, size);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t size) {
  return call<&cublasLtMatmulPreferenceSetAttribute>("cublasLtMatmulPreferenceSetAttribute", preference, attribute,
                                                     value, size);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  return call<&cublasLtMatmulAlgoGetHeuristic>("cublasLtMatmulAlgoGetHeuristic", handle, operation, a, b, c, d,
                                               preference, wanted, results, count);
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    std::size_t size, std::size_t* written) {
  return call<&cublasLtMatmulAlgoConfigGetAttribute>("cublasLtMatmulAlgoConfigGetAttribute", algorithm, attribute,
                                                     value, size, written);
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  return call<&cublasLtMatmul>("cublasLtMatmul", handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout,
                               d, d_layout, algorithm, workspace, workspace_bytes, stream);
}

} // extern "C"

// SPDX-License-Identifier: Apache-2.0
// status_of, open_device: translates CUDA's errors into this project's, and opens the GPU.
#pragma once

#include "sluice/core/expected.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

namespace sluice {

/// Whether the error ended the context: every later call returns the same error until the process ends.
[[nodiscard]] inline bool ends_context(cudaError_t error) {
  switch (error) {
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchFailure:
  case cudaErrorLaunchTimeout:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorECCUncorrectable:
    return true;
  default:
    return false;
  }
}

/// The driver's error, or ok. `where`: what was requested.
[[nodiscard]] inline Status status_of(cudaError_t error, std::string where) {
  if (error == cudaSuccess) return {};
  const std::string said = std::string{cudaGetErrorName(error)} + ", " + cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) {
    return Error{ErrorCode::out_of_memory, std::move(where), said, "as much free memory as was asked for"};
  }
  if (ends_context(error)) {
    return Error{ErrorCode::unsupported, std::move(where),
                 said + ", of this or of earlier work: the process can use the device no more",
                 "a process that begins anew"};
  }
  return Error{ErrorCode::unsupported, std::move(where), said, "a driver and a device that can run it"};
}

namespace detail {

/// "13.0", as CUDA writes a version in one number.
[[nodiscard]] inline std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

} // namespace detail

/// Makes the first GPU that the driver shows (CUDA_VISIBLE_DEVICES chooses it) the calling thread's device. Never
/// another GPU: threads that have not chosen a device use the first one, and any thread may step a machine. Errors, one
/// line each: no driver, a driver older than the runtime that this program is linked with, no GPU.
[[nodiscard]] inline Status open_device() {
  int runtime = 0, driver = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return Error{ErrorCode::not_found, "cuda", "no driver is loaded",
                 "NVIDIA's, for CUDA " + detail::cuda_version(runtime)};
  }
  int devices = 0;
  const cudaError_t counted = cudaGetDeviceCount(&devices);
  if (counted == cudaErrorInsufficientDriver) {
    return Error{ErrorCode::unsupported, "cuda",
                 "the driver is for CUDA " + detail::cuda_version(driver) + ", and this program for CUDA " +
                     detail::cuda_version(runtime),
                 "a newer driver"};
  }
  if (counted == cudaErrorNoDevice || (counted == cudaSuccess && devices == 0))
    return Error{ErrorCode::not_found, "cuda", "the driver shows no GPU",
                 "one, and CUDA_VISIBLE_DEVICES to name it or to be unset"};
  if (Status status = status_of(counted, "cuda: counting GPUs"); !status) return status;
  // cudaSetDevice creates the context, so anything that prevents using the GPU is found here.
  return status_of(cudaSetDevice(0), "cuda: opening the first GPU");
}

/// "68.5 GiB", for messages.
[[nodiscard]] inline std::string gibibytes(std::size_t bytes) {
  const std::size_t tenths = bytes / ((std::size_t{1} << 30) / 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

} // namespace sluice

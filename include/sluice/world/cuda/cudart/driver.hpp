// SPDX-License-Identifier: Apache-2.0
// The CUDA driver: opens the GPU, translates its errors, allocates memory, and tells when an event was reached.
#pragma once

#include "sluice/core/expected.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace sluice {

// status_of, open_device: translates CUDA's errors into this project's, and opens the GPU.

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

// DeviceBytes, PinnedBytes: GPU memory, and pinned host memory that a GPU accesses by itself.

namespace detail {

struct FreeDeviceBytes {
  void operator()(std::byte* at) const { (void)cudaFree(at); } // fails only after the context has ended
};
struct FreePinnedBytes {
  void operator()(std::byte* at) const { (void)cudaFreeHost(at); }
};

/// A number of bytes, freed by the destructor; zero bytes allocate nothing.
template <class Free>
class Allocation {
 public:
  Allocation() = default;
  Allocation(std::byte* at, std::size_t size) : at_(at), size_(size) {}
  Allocation(Allocation&& other) noexcept : at_(std::move(other.at_)), size_(std::exchange(other.size_, 0)) {}
  Allocation& operator=(Allocation&& other) noexcept {
    at_ = std::move(other.at_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  [[nodiscard]] std::byte* data() const { return at_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Whether an address lies within these bytes.
  [[nodiscard]] bool holds(const void* address) const {
    const std::less<> less; // for pointers into different memories
    return size_ > 0 && !less(address, data()) && less(address, data() + size_);
  }

 private:
  std::unique_ptr<std::byte, Free> at_;
  std::size_t size_ = 0;
};

} // namespace detail

using DeviceBytes = detail::Allocation<detail::FreeDeviceBytes>;
using PinnedBytes = detail::Allocation<detail::FreePinnedBytes>;

/// Aligned to 256 bytes. Error: too little is free; the message gives the free amount and the purpose.
[[nodiscard]] inline Expected<DeviceBytes> device_bytes(std::size_t bytes, const std::string& what) {
  if (bytes == 0) return DeviceBytes{};
  void* at = nullptr;
  const cudaError_t error = cudaMalloc(&at, bytes);
  if (error == cudaErrorMemoryAllocation) {
    std::size_t free = 0, all = 0;
    (void)cudaGetLastError(); // clears the error, which is reported here
    (void)cudaMemGetInfo(&free, &all);
    return Error{ErrorCode::out_of_memory, "cuda: device memory",
                 gibibytes(bytes) + " for " + what + " are wanted, and " + gibibytes(free) + " of " + gibibytes(all) +
                     " are free",
                 "a smaller --device-memory, or a GPU that nothing else uses"};
  }
  if (Status status = status_of(error, "cuda: device memory for " + what); !status) return status.error();
  return DeviceBytes{static_cast<std::byte*>(at), bytes};
}

/// Pages that cannot be swapped, so that copies need no host thread. Error: the system gives no more of them.
[[nodiscard]] inline Expected<PinnedBytes> pinned_bytes(std::size_t bytes, const std::string& what) {
  if (bytes == 0) return PinnedBytes{};
  void* at = nullptr;
  const cudaError_t error = cudaHostAlloc(&at, bytes, cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return Error{ErrorCode::out_of_memory, "cuda: pinned memory",
                 "the system refuses " + gibibytes(bytes) + " for " + what, "a smaller --host-memory"};
  }
  if (Status status = status_of(error, "cuda: pinned memory for " + what); !status) return status.error();
  return PinnedBytes{static_cast<std::byte*>(at), bytes};
}

// DeviceClock: when a GPU reached an event, by the host's clock.

/// A GPU reports the time between two events, in milliseconds as a float. So this keeps a base: an event whose time the
/// host knows, because it recorded the event on an idle stream and waited for it.
///
/// Precision: CUDA states half a microsecond for the difference of two events. The base is known to half of the host's
/// wait (some ten microseconds), an error common to all times, so differences are not affected. The two clocks drift by
/// some parts per million, and a float of milliseconds resolves a microsecond only up to 8 s; hence a new base every
/// four seconds, which corrects the clock no further than the host can prove it wrong.
class DeviceClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  DeviceClock() = default;
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;
  ~DeviceClock() {
    for (CUevent_st* const event : {base_, next_})
      if (event != nullptr) (void)cudaEventDestroy(event);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }

  /// Call once, on the device's thread.
  [[nodiscard]] cudaError_t start() {
    if (const cudaError_t error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); error != cudaSuccess)
      return error;
    for (cudaEvent_t* const event : {&base_, &next_})
      if (const cudaError_t error = cudaEventCreateWithFlags(event, cudaEventDefault); error != cudaSuccess)
        return error;
    auto narrowest = std::chrono::steady_clock::duration::max();
    for (int tries = 0; tries < 8; ++tries) { // the first waits for the driver to wake up
      Time before, after;
      if (const cudaError_t error = mark(before, after); error != cudaSuccess) return error;
      if (after - before >= narrowest) continue;
      narrowest = after - before;
      base_time_ = before + narrowest / 2;
      std::swap(base_, next_);
    }
    return cudaSuccess;
  }

  /// The time of an event that is done.
  [[nodiscard]] cudaError_t time(cudaEvent_t event, Time& time) {
    if (std::chrono::steady_clock::now() - base_time_ > base_lasts)
      if (const cudaError_t error = move_base(); error != cudaSuccess) return error;
    return since_base(event, time);
  }

 private:
  static constexpr std::chrono::seconds base_lasts{4};

  /// Records the next event on a stream that is idle.
  [[nodiscard]] cudaError_t mark(Time& before, Time& after) {
    before = std::chrono::steady_clock::now();
    if (const cudaError_t error = cudaEventRecord(next_, stream_); error != cudaSuccess) return error;
    const cudaError_t error = cudaEventSynchronize(next_);
    after = std::chrono::steady_clock::now();
    return error;
  }
  [[nodiscard]] cudaError_t since_base(cudaEvent_t event, Time& time) const {
    float milliseconds = 0; // negative if the event was before the base
    const cudaError_t error = cudaEventElapsedTime(&milliseconds, base_, event);
    time = base_time_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                            std::chrono::duration<double, std::milli>(static_cast<double>(milliseconds)));
    return error;
  }
  [[nodiscard]] cudaError_t move_base() {
    Time before, after, by_device;
    if (const cudaError_t error = mark(before, after); error != cudaSuccess) return error;
    if (const cudaError_t error = since_base(next_, by_device); error != cudaSuccess) return error;
    base_time_ = std::clamp(by_device, before, after);
    std::swap(base_, next_);
    return cudaSuccess;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t base_ = nullptr, next_ = nullptr;
  Time base_time_;
};

} // namespace sluice

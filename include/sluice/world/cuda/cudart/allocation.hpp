// SPDX-License-Identifier: Apache-2.0
// DeviceBytes, PinnedBytes: GPU memory, and pinned host memory that a GPU accesses by itself.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/world/cuda/cudart/driver.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace sluice {

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

} // namespace sluice

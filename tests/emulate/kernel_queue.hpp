// SPDX-License-Identifier: Apache-2.0
// KernelQueue: the model of kernels/decoder/kernel_queue.hpp that is a stream of an emulated device.
#pragma once

#include "emulate/streams.hpp"
#include "kernels/decoder/kernel_queue.hpp"

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace sluice::emulate {

/// Memory of the host or, as it were, of a device: exactly so many bytes, so that AddressSanitizer sees their end, and
/// full of what is no number.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    at_.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
    std::memset(at_.get(), 0xff, bytes);
  }
  Memory(Memory&& other) noexcept : at_(std::move(other.at_)), size_(std::exchange(other.size_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    at_ = std::move(other.at_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  [[nodiscard]] std::byte* data() const { return at_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t alignment{256}; // as CUDA's allocations have
  struct Free {
    void operator()(std::byte* at) const { ::operator delete(at, alignment); }
  };
  std::unique_ptr<std::byte, Free> at_;
  std::size_t size_ = 0;
};

/// One stream of a device, which outlives it. What a kernel did wrong is in the device's report.
class KernelQueue {
 public:
  using Ticket = Device::Ticket;
  using Memory = emulate::Memory;

  KernelQueue(Device& device, int stream) : device_(&device), stream_(stream) {}

  template <auto config>
  void launch(const typename kernels::KernelFamily<std::remove_const_t<decltype(config)>>::Params& params) {
    using Kernel = typename kernels::KernelFamily<std::remove_const_t<decltype(config)>>::template Kernel<config>;
    const kernels::Grid grid = Kernel::grid(params);
    if (grid.x > 0 && grid.y > 0) device_->launch<Kernel>(stream_, grid, params);
  }
  void copy(void* to, const void* from, std::size_t bytes) { device_->copy(stream_, to, from, bytes); }
  Ticket record() { return device_->record(stream_); }
  void wait(const Ticket& ticket, kernels::QueueWait why) {
    if (ticket != nullptr && !(leaves_out_ && *leaves_out_ == why)) device_->synchronize(ticket);
  }
  Memory host(std::size_t bytes) { return Memory{bytes}; }

  /// The kind of wait that from now on is not one: a test's, which shows that it is missed.
  void leave_out(kernels::QueueWait why) { leaves_out_ = why; }

 private:
  Device* device_;
  int stream_;
  std::optional<kernels::QueueWait> leaves_out_;
};
static_assert(kernels::KernelQueue<KernelQueue>);

} // namespace sluice::emulate

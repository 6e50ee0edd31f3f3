// SPDX-License-Identifier: Apache-2.0
// DeviceMemory: how much of the device's memory is in use, to the byte.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"

#include <atomic>
#include <cstdint>

namespace sluice {

/// The budget of the device's memory, from which weights, slots, KV blocks and buffers are taken. It only counts: the
/// device decides where the bytes lie. Any thread may call any member; it never gives out more than exists.
class DeviceMemory {
 public:
  explicit DeviceMemory(Bytes size) : size_(size.count()) { SLUICE_ASSERT(size.count() >= 0, "a size"); }

  /// Takes `bytes`; returns false, and takes nothing, if that much is not free.
  [[nodiscard]] bool take(Bytes bytes) {
    SLUICE_ASSERT(bytes.count() >= 0, "an amount");
    std::int64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes.count() > size_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes.count(), std::memory_order_relaxed));
    const std::int64_t now = used + bytes.count();
    std::int64_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
    return true;
  }
  /// Returns all or part of the taken memory.
  void give(Bytes bytes) {
    [[maybe_unused]] const std::int64_t before = used_.fetch_sub(bytes.count(), std::memory_order_relaxed);
    SLUICE_ASSERT(bytes.count() >= 0 && bytes.count() <= before, "no more is given back than was taken");
  }

  [[nodiscard]] Bytes used() const { return Bytes{used_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] Bytes peak() const { return Bytes{peak_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] Bytes size() const { return Bytes{size_}; }
  [[nodiscard]] Bytes free() const { return size() - used(); }

 private:
  std::int64_t size_;
  std::atomic<std::int64_t> used_{0};
  std::atomic<std::int64_t> peak_{0};
};

} // namespace sluice

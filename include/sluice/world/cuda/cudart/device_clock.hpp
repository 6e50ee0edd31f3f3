// SPDX-License-Identifier: Apache-2.0
// DeviceClock: when a GPU reached an event, by the host's clock.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/world/cuda/cudart/driver.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice {

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

// SPDX-License-Identifier: Apache-2.0
// Doorbell: wakes an idle engine's thread when requests arrive on other threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace sluice {

/// Any thread rings; one thread waits. A ring without a waiter is kept for the next wait, so a request that arrives
/// between a look into the inbox and the wait is not missed. Several unheard rings count as one.
class Doorbell {
 public:
  void ring() {
    {
      const std::lock_guard lock{mutex_};
      rung_ = true;
    }
    heard_.notify_one();
  }
  /// Whether the bell has rung since the last call that heard it. Clears the ring.
  [[nodiscard]] bool hear() {
    const std::lock_guard lock{mutex_};
    return take();
  }
  /// Waits until the bell rings or `time` has passed; `time` may be infinite. Returns whether it rang, and clears the
  /// ring.
  bool wait_for(std::chrono::duration<double> time) {
    constexpr std::chrono::duration<double> long_enough{1e6}; // clocks count nanoseconds in 64 bits
    std::unique_lock lock{mutex_};
    while (time > long_enough && !rung_) {
      heard_.wait_for(lock, long_enough, [this] { return rung_; });
      time -= long_enough;
    }
    heard_.wait_for(lock, std::min(time, long_enough), [this] { return rung_; });
    return take();
  }

 private:
  bool take() {
    const bool rang = rung_;
    rung_ = false;
    return rang;
  }

  std::mutex mutex_;
  std::condition_variable heard_;
  bool rung_ = false;
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// AsyncThread: one thread that runs one task at a time. Doorbell: wakes an idle engine's thread.
#pragma once

#include "sluice/core/assert.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace sluice {

/// Makes plans while an iteration runs. The first task starts the thread; the destructor finishes the current task and
/// joins.
class AsyncThread {
 public:
  AsyncThread() = default;
  AsyncThread(const AsyncThread&) = delete;
  AsyncThread& operator=(const AsyncThread&) = delete;
  ~AsyncThread() {
    {
      const std::lock_guard lock{mutex_};
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  /// Starts `work(what)`. The previous task must have been joined.
  void start(void (*work)(void*), void* what) {
    if (!thread_.joinable()) thread_ = std::thread{[this] { serve(); }};
    {
      const std::lock_guard lock{mutex_};
      SLUICE_ASSERT(work_ == nullptr, "one piece of work at a time");
      work_ = work;
      what_ = what;
    }
    changed_.notify_all();
  }
  [[nodiscard]] bool done() {
    const std::lock_guard lock{mutex_};
    return work_ == nullptr;
  }
  void join() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return work_ == nullptr; });
  }

 private:
  void serve() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || work_ != nullptr; });
      if (work_ == nullptr) return;
      lock.unlock();
      work_(what_); // set before, and unchanged until the task is done
      lock.lock();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
  void (*work_)(void*) = nullptr;
  void* what_ = nullptr;
  bool stop_ = false;
};

// Doorbell: wakes an idle engine's thread when requests arrive on other threads.

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

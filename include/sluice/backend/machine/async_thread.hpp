// SPDX-License-Identifier: Apache-2.0
// AsyncThread: one thread that does one piece of work at a time, asynchronously.
#pragma once

#include "sluice/core/assert.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace sluice {

/// Where plans are made while an iteration runs. The first piece of work starts the thread; the destructor ends it,
/// after the piece that it is at.
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

  /// Starts `work(what)`. The piece before must have been waited for.
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
      work_(what_); // set before, and not changed until the work is done
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

} // namespace sluice

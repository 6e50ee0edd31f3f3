// SPDX-License-Identifier: Apache-2.0
// AsyncThread: one thread that runs one task at a time.
#pragma once

#include "sluice/core/assert.hpp"

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

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// JobQueue, run_each: numbered jobs on several threads, with the same error whatever the threads.
#pragma once

#include "sluice/core/expected.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {

/// Hands out each job once, in order, and none after the first that failed. All jobs before that one run, so the first
/// failure is the same however fast the threads are.
class JobQueue {
 public:
  explicit JobQueue(std::size_t count) : JobQueue(count, [](std::size_t) { return false; }) {}
  /// `stays(job)`: whether only `next(true)` hands out the job, before all others.
  template <class Stays>
  JobQueue(std::size_t count, Stays&& stays) : failed_(count) {
    for (std::size_t i = 0; i < count; ++i) (stays(i) ? staying_ : others_).push_back(i);
  }

  [[nodiscard]] std::optional<std::size_t> next(bool here = true) {
    const std::lock_guard lock(mutex_);
    if (here)
      if (const std::optional<std::size_t> job = first(staying_)) return job;
    return first(others_);
  }
  void failed(std::size_t job, Error error) {
    const std::lock_guard lock(mutex_);
    if (job >= failed_) return;
    failed_ = job;
    error_ = std::move(error);
  }
  [[nodiscard]] Status status() {
    const std::lock_guard lock(mutex_);
    return error_ ? Status{*error_} : Status{};
  }

 private:
  std::optional<std::size_t> first(std::deque<std::size_t>& of) {
    if (of.empty() || of.front() > failed_) return std::nullopt;
    const std::size_t job = of.front();
    of.pop_front();
    return job;
  }

  std::mutex mutex_;
  std::deque<std::size_t> staying_, others_;
  std::size_t failed_;
  std::optional<Error> error_;
};

/// Runs jobs until the queue is empty. `act(job)` returns the job's Status, or nothing to stop this thread.
template <class Act>
void run_from(JobQueue& queue, Act&& act) {
  while (const std::optional<std::size_t> job = queue.next()) {
    const std::optional<Status> ran = act(*job);
    if (!ran) return;
    if (!*ran) queue.failed(*job, ran->error());
  }
}

/// Calls `act(i)`, as `run_from` does, for every i below `count`, on this thread and `threads - 1` others. `threads` 0:
/// one per processor. Returns the error of the least i that has one.
template <class Act>
[[nodiscard]] Status run_each(std::size_t count, std::size_t threads, Act&& act) {
  JobQueue queue(count);
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(threads, count); ++i) others.emplace_back([&] { run_from(queue, act); });
    run_from(queue, act);
  }
  return queue.status();
}

} // namespace sluice

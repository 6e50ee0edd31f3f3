// SPDX-License-Identifier: Apache-2.0
// Crew: who runs job i. Threads of this process, or those of many machines (shared/mpi).
#pragma once

#include "sluice/core/expected.hpp"

#include "shared/interrupt.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {

/// Jobs by number. No job knows of another, and each leaves its result at a place of its own, so that nothing depends
/// on who ran it, or when.
struct Jobs {
  std::size_t count = 0;
  std::function<Status(std::size_t)> run;
  /// Whose result is too much to be sent: such a job runs in the process that tells. None given: no job does.
  std::function<bool(std::size_t)> stays{};
  /// The result as bytes, and from bytes to its place in another process.
  std::function<std::string(std::size_t)> pack{};
  std::function<Status(std::size_t, std::string_view)> unpack{};
  /// Told of each job whose result has come, by whichever thread.
  std::function<void(std::size_t)> ended{};
};

/// Which job is next: each is given once, in order, and none behind the first that failed. So the first failure is the
/// same whoever is quicker. None after an interrupt.
class JobQueue {
 public:
  /// `apart`: those that stay are for who asks `here` alone.
  JobQueue(const Jobs& jobs, bool apart) : failed_(jobs.count) {
    for (std::size_t i = 0; i < jobs.count; ++i)
      (apart && jobs.stays && jobs.stays(i) ? staying_ : others_).push_back(i);
  }

  [[nodiscard]] std::optional<std::size_t> next(bool here) {
    if (interrupted() != 0) return std::nullopt;
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

/// Who runs jobs. One process of the crew leads: it gets all results, and it alone tells what came of them.
class Crew {
 public:
  Crew() = default;
  virtual ~Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Runs all jobs; the first of them that fails is the error. Every process calls it with the same jobs. After an
  /// interrupt no job begins and those under way are dropped: `Jobs::ended` tells which have a result.
  virtual Status run(const Jobs& jobs) = 0;
  [[nodiscard]] virtual bool leads() const { return true; }
  /// Whether every process has come so far, to the same: `what` says what it is about to do.
  virtual Status agree(const Status& here, std::string_view /*what*/) { return here; }

  /// Jobs at once in each process; nothing: one a processor.
  void threads(std::optional<std::int64_t> count) { threads_ = count; }

 protected:
  [[nodiscard]] std::size_t threads_for(std::size_t jobs, unsigned sharing = 1) const {
    const auto processors = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency() / sharing));
    const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(1, threads_.value_or(processors)));
    return std::min(wanted, std::max<std::size_t>(1, jobs));
  }
  /// Nothing where the run was dropped.
  static std::optional<Status> attempt(const Jobs& jobs, std::size_t job) {
    try {
      return jobs.run(job);
    } catch (const Dropped&) {
      return std::nullopt;
    }
  }
  /// One thread's share of a queue, until nothing is left of it.
  static void work(JobQueue& queue, const Jobs& jobs) {
    while (const std::optional<std::size_t> job = queue.next(true)) {
      const std::optional<Status> ran = attempt(jobs, *job);
      if (!ran) return;
      if (!*ran) queue.failed(*job, ran->error());
      if (jobs.ended) jobs.ended(*job);
    }
  }

 private:
  std::optional<std::int64_t> threads_;
};

/// The threads of this process, the calling one among them.
class ThreadCrew final : public Crew {
 public:
  Status run(const Jobs& jobs) override {
    JobQueue queue(jobs, false);
    {
      std::vector<std::jthread> others;
      for (std::size_t i = 1; i < threads_for(jobs.count); ++i) others.emplace_back([&] { work(queue, jobs); });
      work(queue, jobs);
    }
    return queue.status();
  }
};

} // namespace sluice

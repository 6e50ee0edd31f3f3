// SPDX-License-Identifier: Apache-2.0
// Crew: runs numbered jobs on threads of this process, or on many machines (shared/mpi).
#pragma once

#include "sluice/core/job_queue.hpp"

#include "shared/interrupt.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace sluice {

/// Numbered jobs. Jobs are independent, and each stores its result in its own place, so results do not depend on which
/// thread or process ran a job, or when.
struct Jobs {
  std::size_t count = 0;
  std::function<Status(std::size_t)> run;
  /// Whether a job's result is too large to send; such a job runs in the leading process. Empty: no job's result is.
  std::function<bool(std::size_t)> stays{};
  /// Converts a job's result to bytes, and stores bytes from another process as its result.
  std::function<std::string(std::size_t)> pack{};
  std::function<Status(std::size_t, std::string_view)> unpack{};
  /// Called once for each finished job, on any thread.
  std::function<void(std::size_t)> ended{};
};

/// Runs jobs. One process of the crew leads: it gets all results, and only it reports them.
class Crew {
 public:
  Crew() = default;
  virtual ~Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Runs all jobs; returns the first failed job's error. Every process must call it with the same jobs. After an
  /// interrupt no job starts, and running jobs are dropped: `Jobs::ended` is called only for jobs with a result.
  virtual Status run(const Jobs& jobs) = 0;
  [[nodiscard]] virtual bool leads() const { return true; }
  /// Checks that every process reached this point with the same `what`, a text that identifies the next run.
  virtual Status agree(const Status& here, std::string_view /*what*/) { return here; }

  /// Returns the leader's text on every process. Each must call it at the same point, after a `run` without an error.
  virtual std::string share(const std::string& text) { return text; }

  /// Sets the number of concurrent jobs in each process; empty: one per processor.
  void threads(std::optional<std::int64_t> count) { threads_ = count; }

 protected:
  [[nodiscard]] std::size_t threads_for(std::size_t jobs, unsigned sharing = 1) const {
    const auto processors = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency() / sharing));
    const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(1, threads_.value_or(processors)));
    return std::min(wanted, std::max<std::size_t>(1, jobs));
  }
  /// Runs a job. Returns nothing if the run was dropped or would start after an interrupt.
  static std::optional<Status> attempt(const Jobs& jobs, std::size_t job) {
    if (interrupted() != 0) return std::nullopt;
    try {
      return jobs.run(job);
    } catch (const Dropped&) {
      return std::nullopt;
    }
  }
  /// Does the same for the leader's own threads, which report the end immediately.
  static std::optional<Status> finish(const Jobs& jobs, std::size_t job) {
    std::optional<Status> ran = attempt(jobs, job);
    if (ran && jobs.ended) jobs.ended(job);
    return ran;
  }

 private:
  std::optional<std::int64_t> threads_;
};

/// The threads of this process, including the calling one.
class ThreadCrew final : public Crew {
 public:
  Status run(const Jobs& jobs) override {
    return run_each(jobs.count, threads_for(jobs.count), [&](std::size_t job) { return finish(jobs, job); });
  }
};

} // namespace sluice

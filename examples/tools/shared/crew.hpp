// SPDX-License-Identifier: Apache-2.0
// Crew: who runs job i. Threads of this process, or those of many machines (shared/mpi).
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
  /// Nothing if the run was dropped, or would begin after an interrupt.
  static std::optional<Status> attempt(const Jobs& jobs, std::size_t job) {
    if (interrupted() != 0) return std::nullopt;
    try {
      return jobs.run(job);
    } catch (const Dropped&) {
      return std::nullopt;
    }
  }
  /// The same, for the leader's own threads, which report the end at once.
  static std::optional<Status> finish(const Jobs& jobs, std::size_t job) {
    std::optional<Status> ran = attempt(jobs, job);
    if (ran && jobs.ended) jobs.ended(job);
    return ran;
  }

 private:
  std::optional<std::int64_t> threads_;
};

/// The threads of this process, the calling one among them.
class ThreadCrew final : public Crew {
 public:
  Status run(const Jobs& jobs) override {
    return run_each(jobs.count, threads_for(jobs.count), [&](std::size_t job) { return finish(jobs, job); });
  }
};

} // namespace sluice

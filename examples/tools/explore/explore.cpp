// SPDX-License-Identifier: Apache-2.0
// Runs every engine of the space and every published system, beside one another.
#include "sluice/report/seeds.hpp"

#include "compare/outcome.hpp"
#include "explore/exploration.hpp"
#include "shared/progress.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace explored {

using namespace sluice;
using compared::Comparison;
using compared::Options;

namespace {

struct Task {
  compared::Runner run = nullptr;
  std::string_view rule;
};

/// Runs tasks in order of their number on some threads; each leaves its outcome at its own place, so that nothing
/// depends on who was quicker. The first task in order that fails is the error.
class Runs {
 public:
  Runs(const Comparison& comparison, Slo slo, bool deposit, std::vector<Task> tasks)
      : comparison_(comparison),
        slo_(slo),
        deposit_(deposit),
        tasks_(std::move(tasks)),
        setups_(comparison.redrawn.empty() ? std::vector{comparison.setup} : comparison.redrawn),
        outcomes_(tasks_.size() * setups_.size()),
        failures_(outcomes_.size()) {}

  Status run(int threads, bool quiet) {
    Progress progress(static_cast<double>(total()), stderr, quiet ? Progress::Style::silent : Progress::Style::detect);
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) workers.emplace_back([this] { work(); });
    {
      std::unique_lock lock(mutex_);
      while (!wake_.wait_for(lock, std::chrono::milliseconds{100}, [this] { return finished_ == outcomes_.size(); }))
        progress.update(static_cast<double>(ended_.load()), fmt::format("{} of {} {}", finished_, outcomes_.size(),
                                                                        setups_.size() > 1 ? "runs" : "engines"));
    }
    for (std::thread& worker : workers) worker.join();
    for (const std::optional<Error>& failure : failures_)
      if (failure) return *failure;
    return {};
  }

  /// What a task's runs gave, one of each seed, as one.
  [[nodiscard]] SystemReport report(std::size_t task) {
    const std::size_t first = task * setups_.size();
    if (setups_.size() == 1) return std::move(outcomes_[first].report);
    std::vector<SystemReport> runs;
    for (std::size_t i = 0; i < setups_.size(); ++i) runs.push_back(std::move(outcomes_[first + i].report));
    return joined(std::move(runs), comparison_.workload.seeds);
  }

 private:
  /// A hundred rows of curves, of every seed, that nobody draws.
  static void keep_figures(compared::Outcome& outcome) {
    outcome.trace.clear();
    outcome.report.series = {};
    outcome.report.iteration = {};
    outcome.report.ttft_cdf.clear();
    outcome.report.tbt_cdf.clear();
    outcome.report.e2e_cdf.clear();
  }
  [[nodiscard]] std::int64_t total() const {
    return comparison_.workload.requests * static_cast<std::int64_t>(outcomes_.size());
  }
  void work() {
    for (std::size_t i; (i = next_++) < outcomes_.size();) {
      std::int64_t told = 0;
      const Task& task = tasks_[i / setups_.size()];
      const compared::Request request{.setup = setups_[i % setups_.size()],
                                      .slo = slo_,
                                      .deposit = deposit_,
                                      .rule = task.rule,
                                      .tell = [&](std::int64_t ended) {
                                        ended_ += ended - told;
                                        told = ended;
                                      }};
      if (Status ran = task.run(request, outcomes_[i]); !ran) failures_[i] = ran.error();
      keep_figures(outcomes_[i]);
      ended_ += comparison_.workload.requests - told;
      const std::lock_guard lock(mutex_);
      ++finished_;
      wake_.notify_one();
    }
  }

  const Comparison& comparison_;
  Slo slo_;
  bool deposit_;
  std::vector<Task> tasks_;
  std::vector<compared::Setup> setups_; ///< one of each seed
  std::vector<compared::Outcome> outcomes_;
  std::vector<std::optional<Error>> failures_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::int64_t> ended_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::size_t finished_ = 0;
};

Row row_of(SystemReport&& report) {
  Row row;
  row.metrics = report.metrics;
  row.per_seed = std::move(report.per_seed);
  row.refusals = std::move(report.refusals);
  row.livelock = std::move(report.livelock);
  return row;
}

} // namespace

Expected<Exploration> explore(const Options& options, const Comparison& comparison, int threads) {
  Exploration found;
  found.space = space();
  found.workload = comparison.workload;
  found.deposit = options.deposit == "on";
  found.slo_scale = options.slo_scales.front();
  const Slo slo{.ttft = Seconds{options.slo_ttft}, .tbt = comparison.base_slo * found.slo_scale};
  found.slo_tbt_s = slo.tbt.count();

  std::vector<Task> tasks;
  for (const Candidate& candidate : found.space.engines) tasks.push_back({candidate.run, {}});
  std::vector<const compared::System*> systems;
  for (const compared::System* system : comparison.systems)
    if (!(found.deposit && system->deposit_never)) systems.push_back(system);
  for (const compared::System* system : systems) tasks.push_back({system->run, system->rule});

  Runs runs(comparison, slo, found.deposit, std::move(tasks));
  if (Status ran = runs.run(threads, options.quiet); !ran) return ran.error();
  std::size_t task = 0;
  for (const Candidate& candidate : found.space.engines) {
    Row row = row_of(runs.report(task++));
    row.name = row.engine = candidate.name;
    row.number = candidate.number;
    found.rows.push_back(std::move(row));
  }
  for (std::size_t i = 0; i < systems.size(); ++i) {
    SystemReport report = runs.report(task++);
    std::string engine = std::move(report.engine_type);
    Row row = row_of(std::move(report));
    row.name = systems[i]->name;
    row.engine = std::move(engine);
    row.published = true;
    row.control = systems[i]->control;
    row.number = i;
    found.rows.push_back(std::move(row));
  }
  analyse(found);
  return found;
}

} // namespace explored

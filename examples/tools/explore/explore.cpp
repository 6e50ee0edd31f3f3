// SPDX-License-Identifier: Apache-2.0
// Runs every engine of the space and every published system, in parallel.
#include "sluice/report/seeds.hpp"

#include "compare/rows.hpp"
#include "compare/run.hpp"
#include "engines/registry.hpp"
#include "explore/exploration.hpp"
#include "shared/crew.hpp"
#include "shared/progress.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace explored {

using namespace sluice;
using compared::Comparison;
using compared::Options;

namespace {

/// The runs of all tasks, one per seed, as jobs of a crew. A task is a system of the list, or an engine of the space as
/// a system without a name: both run alike, so that their figures count the same requests.
class Runs {
 public:
  Runs(const Comparison& comparison, Slo slo, bool deposit, std::vector<compared::System> tasks)
      : comparison_(comparison),
        slo_(slo),
        deposit_(deposit),
        tasks_(std::move(tasks)),
        setups_(comparison.redrawn.empty() ? std::vector{comparison.setup} : comparison.redrawn),
        outcomes_(tasks_.size() * setups_.size()),
        finished_(outcomes_.size(), false) {}

  Status run(Crew& crew, bool quiet) {
    Progress progress(static_cast<double>(total()), stderr, quiet ? Progress::Style::silent : Progress::Style::detect);
    std::mutex telling; // guards `progress` and the counts of finished runs
    std::int64_t ended = 0;
    std::size_t finished = 0; // counted in `progress`
    std::vector<std::int64_t> told(outcomes_.size(), 0);
    const auto tell = [&](std::size_t i, std::int64_t of) {
      ended += of - std::exchange(told[i], of);
      progress.update(static_cast<double>(ended),
                      fmt::format("{} of {} {}", finished, outcomes_.size(), setups_.size() > 1 ? "runs" : "engines"));
    };
    Jobs jobs;
    jobs.count = outcomes_.size();
    jobs.run = [&](std::size_t i) {
      const compared::System& task = tasks_[i / setups_.size()];
      const compared::Request request{.setup = setups_[i % setups_.size()],
                                      .slo = slo_,
                                      .deposit = deposit_,
                                      .rule = task.rule,
                                      .tell = [&, i](std::int64_t of) {
                                        drop_if_interrupted();
                                        const std::lock_guard lock(telling);
                                        tell(i, of);
                                      }};
      Status ran = compared::run(task, request, outcomes_[i]);
      compared::forget_curves(outcomes_[i]); // there are hundreds of rows with a curve per seed, which no page draws
      return ran;
    };
    jobs.pack = [&](std::size_t i) { return compared::packed(outcomes_[i]); };
    jobs.unpack = [&](std::size_t i, std::string_view bytes) { return compared::unpack(bytes, outcomes_[i]); };
    jobs.ended = [&](std::size_t i) {
      const std::lock_guard lock(telling);
      ++finished;
      finished_[i] = true;
      tell(i, comparison_.workload.requests);
    };
    Status ran = crew.run(jobs);
    if (!count().whole()) progress.finish("interrupted after");
    return ran;
  }

  [[nodiscard]] RunCount count() const {
    return {static_cast<std::size_t>(std::count(finished_.begin(), finished_.end(), true)), finished_.size()};
  }
  /// Whether the task has run on every seed.
  [[nodiscard]] bool whole(std::size_t task) const {
    for (std::size_t i = 0; i < setups_.size(); ++i)
      if (!finished_[task * setups_.size() + i]) return false;
    return true;
  }

  /// The results of a task's runs, one per seed, as one report.
  [[nodiscard]] SystemReport report(std::size_t task) {
    const std::size_t first = task * setups_.size();
    if (setups_.size() == 1) return std::move(outcomes_[first].report);
    std::vector<SystemReport> runs;
    for (std::size_t i = 0; i < setups_.size(); ++i) runs.push_back(std::move(outcomes_[first + i].report));
    return joined(std::move(runs), comparison_.workload.seeds, comparison_.workload.windows);
  }

 private:
  [[nodiscard]] std::int64_t total() const {
    return comparison_.workload.requests * static_cast<std::int64_t>(outcomes_.size());
  }

  const Comparison& comparison_;
  Slo slo_;
  bool deposit_;
  std::vector<compared::System> tasks_;
  std::vector<compared::Setup> setups_; ///< one per seed
  std::vector<compared::Outcome> outcomes_;
  std::vector<bool> finished_;
};

Row row_of(SystemReport&& report) {
  Row row;
  row.metrics = report.metrics;
  row.per_seed = std::move(report.per_seed);
  row.livelocks = std::move(report.livelocks);
  row.refusals = std::move(report.refusals);
  row.transfer = std::move(report.transfer);
  row.livelock = std::move(report.livelock);
  return row;
}

} // namespace

Expected<Exploration> explore(const Options& options, const Comparison& comparison, Crew& crew) {
  Exploration found;
  found.space = space();
  found.workload = comparison.workload;
  found.deposit = options.deposit == "on";
  found.slo_scale = comparison.scales.front();
  const Slo slo = compared::slo_at(comparison, found.slo_scale);
  found.slo_tbt_s = slo.tbt.count();
  if (comparison.several_slos) found.slo_tbt_s = found.workload.slo_ttft_s = Metrics::absent;

  std::vector<compared::System> tasks;
  for (const Candidate& candidate : found.space.engines) tasks.emplace_back().simulate = candidate.simulate;
  std::vector<const compared::System*> systems;
  for (const compared::System* system : comparison.systems)
    if (!(found.deposit && system->deposit_never)) systems.push_back(system);
  for (const compared::System* system : systems) tasks.push_back(*system);

  Runs runs(comparison, slo, found.deposit, std::move(tasks));
  if (Status ran = runs.run(crew, options.quiet); !ran) return ran.error();
  if (!crew.leads()) return found;
  found.runs = runs.count();
  std::size_t task = 0;
  for (const Candidate& candidate : found.space.engines) {
    const std::size_t which = task++;
    if (!runs.whole(which)) continue;
    Row row = row_of(runs.report(which));
    row.name = row.engine = candidate.name;
    row.number = candidate.number;
    found.rows.push_back(std::move(row));
  }
  for (std::size_t i = 0; i < systems.size(); ++i) {
    const std::size_t which = task++;
    if (!runs.whole(which)) continue;
    SystemReport report = runs.report(which);
    std::string engine = std::move(report.engine_type);
    Row row = row_of(std::move(report));
    row.name = systems[i]->name;
    row.engine = std::move(engine);
    row.listed = true;
    row.own = engines::is_own(*systems[i]);
    row.control = systems[i]->control;
    row.oracle = systems[i]->foresees;
    row.number = i;
    found.rows.push_back(std::move(row));
  }
  analyse(found);
  return found;
}

} // namespace explored

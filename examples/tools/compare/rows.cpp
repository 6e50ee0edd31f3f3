// SPDX-License-Identifier: Apache-2.0
// The rows of a comparison: runs each once for every seed, and builds the report and the files.
#include "compare/rows.hpp"

#include "sluice/report/seeds.hpp"

#include "compare/bound.hpp"
#include "compare/columns.hpp"
#include "compare/files.hpp"
#include "compare/run.hpp"
#include "engines/program.hpp"
#include "shared/crew.hpp"
#include "shared/progress.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

const TunedSystem* tuned_of(const Comparison& c, const Row& row) {
  for (const TunedSystem& tuned : c.tuned)
    if (tuned.system == row.system && tuned.deposit == row.deposit) return &tuned;
  return nullptr;
}

/// Returns the number of a row's runs: one per seed, then the one as recorded if there is one.
std::size_t runs_of(const Comparison& c) { return seeds_in(c) + (c.as_recorded ? 1 : 0); }

/// Returns the setup of a row's run on the workload of a seed, or as recorded.
const Setup& setup_of(const Comparison& c, const Row& row, std::size_t seed) {
  if (const TunedSystem* tuned = tuned_of(c, row); tuned != nullptr && !tuned->setups.empty())
    return tuned->setups[seed];
  if (seed == seeds_in(c)) return c.as_recorded->setup;
  return c.redrawn.empty() ? c.setup : c.redrawn[seed];
}

std::string trace_name(const System& system, bool deposit, const std::string& scale) {
  return fmt::format("{}{}-x{}.json", system.name, deposit ? "-deposit" : "", scale);
}

/// Adds the figures of the run as recorded to a row.
void add_recorded(SystemReport& row, const SystemReport* recorded) {
  if (recorded != nullptr && recorded->livelock.empty()) row.as_recorded = recorded->metrics;
  if (recorded != nullptr && !recorded->livelock.empty() && row.note.empty())
    row.note = "as recorded: " + recorded->livelock;
  for (std::size_t i = 0; i < row.classes.size(); ++i)
    add_recorded(row.classes[i], recorded == nullptr ? nullptr : &recorded->classes[i]);
}

/// Combines the runs of one row, tenant by tenant.
Outcome of_seeds(std::span<Outcome> all_runs, const Comparison& c) {
  const std::span<Outcome> runs = all_runs.first(seeds_in(c));
  if (runs.size() == 1) return std::move(runs.front());
  std::vector<SystemReport> reports;
  for (Outcome& run : runs) reports.push_back(std::move(run.report));
  Outcome all{.report = joined(std::move(reports), c.workload.seeds, c.workload.windows),
              .trace = std::move(runs.front().trace)};
  add_recorded(all.report, c.as_recorded ? &all_runs.back().report : nullptr);
  for (std::size_t tenant = 0; tenant < runs.front().tenants.size(); ++tenant) {
    std::vector<SystemReport> own;
    for (Outcome& run : runs) own.push_back(std::move(run.tenants[tenant].report));
    std::string trace = std::move(runs.front().tenants[tenant].trace);
    all.tenants.push_back(
        {.report = joined(std::move(own), c.workload.seeds, c.workload.windows), .trace = std::move(trace)});
  }
  return all;
}

/// Reports that no run reached the time given to --trace-at, so that traces show the last iterations instead.
void tell_of_end(const Options& options, const ComparisonReport& report) {
  if (options.trace_at.point != TraceAt::Point::time) return;
  double last = 0;
  for (const SystemReport& row : report.systems)
    last = std::max(last, row.per_seed.empty() ? row.metrics.end_s : row.per_seed.front().end_s);
  if (options.trace_at.time.count() > last)
    std::fprintf(stderr,
                 "%s: --trace-at: %g s is after the end of every run (the last: %.6g s); traces show the "
                 "last iterations\n",
                 engines::program_name(), options.trace_at.time.count(), last);
}

/// Makes the report of the rows that have run; in `outcomes`, a row's seeds are adjacent. Writes its files.
ComparisonReport report_of(const Options& options, const Comparison& c, const std::vector<Row>& rows,
                           std::span<Outcome> outcomes, Status& files) {
  ComparisonReport report{c.workload, {}, options.baseline, made_by()};
  if (c.as_recorded) report.workload.as_recorded = c.as_recorded->what;
  const std::size_t runs = runs_of(c);
  std::deque<std::string> names; // names of traces
  std::vector<NamedText> traces;
  const CsvRows csv = take_rows(outcomes);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    Outcome outcome = of_seeds(outcomes.subspan(i * runs, runs), c);
    outcome.report.name = row.system->name;
    outcome.report.control = row.system->control;
    outcome.report.oracle = row.system->foresees;
    outcome.report.slo_scale = row.scale;
    if (const TunedSystem* tuned = tuned_of(c, row)) outcome.report.tuned = tuned->setting;
    const auto keep = [&](Outcome& one, const std::string& tenant) {
      if (!options.out.empty() && !options.no_traces) {
        const std::string scale = fmt::format("{:g}{}{}", row.scale, tenant.empty() ? "" : "-", tenant);
        names.push_back("traces/" + trace_name(*row.system, row.deposit, scale));
        traces.emplace_back(names.back(), std::move(one.trace));
      }
      report.systems.push_back(std::move(one.report));
    };
    if (outcome.tenants.empty()) {
      keep(outcome, "");
      continue;
    }
    report.systems.push_back(std::move(outcome.report));
    for (Outcome& tenant : outcome.tenants) {
      const std::string who = tenant.report.name;
      tenant.report.name = fmt::format("{}/{}", row.system->name, who);
      tenant.report.control = row.system->control;
      tenant.report.oracle = row.system->foresees;
      tenant.report.slo_scale = row.scale;
      keep(tenant, who);
    }
  }
  mark_short_horizon(report);
  if (options.bound) add_bounds(c, report);
  if (!options.out.empty() && files.ok()) {
    files = write_files({options, c}, report, csv, traces);
    if (files.ok()) tell_of_end(options, report);
  }
  return report;
}

} // namespace

void forget_curves(Outcome& outcome) {
  SystemReport& report = outcome.report;
  report.ttft_cdf.clear();
  report.tbt_cdf.clear();
  report.e2e_cdf.clear();
  report.series = {};
  report.iteration = {};
  report.time.requests.clear();
  report.distributions.clear();
  outcome.trace.clear();
  for (Outcome& tenant : outcome.tenants) forget_curves(tenant);
}

std::size_t seeds_in(const Comparison& c) { return std::max<std::size_t>(1, c.redrawn.size()); }

Expected<std::vector<Row>> rows_of(const Comparison& c) {
  std::vector<Row> rows;
  for (const double scale : c.scales)
    for (const bool deposit : {false, true})
      for (const System* system : c.systems)
        if (deposit ? c.with_deposit && !system->deposit_never : c.without_deposit)
          rows.push_back({system, scale, deposit});
  if (rows.empty())
    return flag_error("--deposit", "none of these systems has a deposit", "off, or a system that has one");
  return rows;
}

std::string name_of_run(const Options& options, const Comparison& c, const Row& row, std::size_t seed) {
  std::string name = fmt::format("{}{}{}{} at SLO x{:g}", options.case_label, options.case_label.empty() ? "" : ": ",
                                 row.system->name, row.deposit ? " + deposit" : "", row.scale);
  if (seed == seeds_in(c)) return name + ", as recorded";
  if (seeds_in(c) > 1) name += fmt::format(", seed {}", c.workload.seeds[seed]);
  return name;
}

Status run_row(const Options& options, const Comparison& c, const Row& row, const Setup& setup, std::size_t seed,
               bool details, std::function<void(std::int64_t ended)> tell, Outcome& outcome) {
  const bool files = !options.out.empty() && seed < seeds_in(c); // they have no rows of a trace as recorded
  const Wanted wanted = files ? wanted_of(options, c, *row.system, row.scale, seed) : Wanted{};
  const Request request{.setup = setup,
                        .slo = slo_at(c, row.scale),
                        .deposit = row.deposit,
                        .rule = !c.rule.empty() ? c.rule : row.system->rule,
                        .details = details,
                        .no_trace = options.no_traces,
                        .why = options.why.has_value() || details,
                        .why_id = options.why ? options.why->id : -1,
                        .findable = options.columns.find(findable_column) != std::string::npos,
                        .wanted = files ? &wanted : nullptr,
                        .tell = std::move(tell)};
  return run(*row.system, request, outcome);
}

Expected<Compared> compare_all(std::span<const Asked> all, Crew& crew, Status& files) {
  struct One {
    std::size_t asked, row, seed;
  };
  std::vector<std::vector<Row>> rows;
  std::vector<One> runs;
  double requests = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [options, c] = all[i];
    Expected<std::vector<Row>> of = rows_of(c);
    if (!of) return of.error();
    for (std::size_t row = 0; row < of->size(); ++row)
      for (std::size_t run = 0; run < runs_of(c); ++run) runs.push_back({i, row, run});
    requests += static_cast<double>(c.workload.requests) * static_cast<double>(of->size() * runs_of(c));
    rows.push_back(*std::move(of));
    const std::filesystem::path out{options.out}, traces = options.no_traces ? out : out / "traces";
    if (options.out.empty() || !crew.leads() || interrupted() != 0) continue;
    if (Status made = make_folder(traces.string()); !made)
      return flag_error("--out", "the folder " + options.out + " cannot be made", made.error().expected);
  }
  // Runs share no state: each has its own engine and its own reader of the workload. A row has one run per seed.
  const bool quiet = all.empty() || all.front().options.quiet;
  Progress progress(requests, stderr, quiet ? Progress::Style::silent : Progress::Style::detect);
  std::vector<double> ended(runs.size(), 0);
  std::vector<bool> finished(runs.size(), false);
  std::mutex telling; // guards `progress`, `ended` and `finished`
  double sum = 0;
  const auto tell = [&](std::size_t run, double count, std::string_view label) {
    const std::lock_guard lock(telling);
    sum += count - std::exchange(ended[run], count);
    progress.update(sum, label);
  };
  const auto details = [&](std::size_t i) { return !all[runs[i].asked].options.out.empty() && runs[i].seed == 0; };
  std::vector<Outcome> outcomes(runs.size());
  Jobs jobs;
  jobs.count = runs.size();
  jobs.run = [&](std::size_t i) {
    const One& one = runs[i];
    const auto& [options, c] = all[one.asked];
    const std::string label = name_of_run(options, c, rows[one.asked][one.row], one.seed);
    const Setup& setup = setup_of(c, rows[one.asked][one.row], one.seed);
    const auto count = [&, i](std::int64_t of) {
      drop_if_interrupted();
      tell(i, static_cast<double>(of), label);
    };
    Status ran = run_row(options, c, rows[one.asked][one.row], setup, one.seed, details(i), count, outcomes[i]);
    if (!details(i) && !(options.why && one.seed == 0)) forget_curves(outcomes[i]); // no page draws them
    return ran;
  };
  // The drawings and explanations of a row's first seed are too large to send to another process.
  jobs.stays = [&](std::size_t i) { return details(i) || (all[runs[i].asked].options.why && runs[i].seed == 0); };
  jobs.pack = [&](std::size_t i) { return packed(outcomes[i]); };
  jobs.unpack = [&](std::size_t i, std::string_view bytes) { return unpack(bytes, outcomes[i]); };
  jobs.ended = [&](std::size_t i) {
    const auto& [options, c] = all[runs[i].asked];
    const Row& row = rows[runs[i].asked][runs[i].row];
    tell(i, static_cast<double>(c.workload.requests), name_of_run(options, c, row, runs[i].seed));
    const std::lock_guard lock(telling);
    finished[i] = true;
  };
  if (Status ran = crew.run(jobs); !ran) return ran.error();
  Compared made;
  if (!crew.leads()) return made;
  made.runs = {static_cast<std::size_t>(std::count(finished.begin(), finished.end(), true)), runs.size()};
  if (!made.runs.whole()) progress.finish("interrupted after");
  std::size_t first = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [options, c] = all[i];
    Options shown = options;
    if (!made.runs.whole() && !options.out.empty()) { // either all files are written or none
      std::error_code not_empty;
      std::filesystem::remove(std::filesystem::path{options.out} / "traces", not_empty);
      shown.out.clear();
    }
    std::vector<Row> whole; // only rows with all seeds: a mean over fewer seeds cannot be compared with the others
    std::vector<Outcome> of_whole;
    for (const Row& row : rows[i]) {
      const std::size_t behind = first + runs_of(c);
      const auto begin = finished.begin();
      const bool ran =
          std::find(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(behind), false) ==
          begin + static_cast<std::ptrdiff_t>(behind);
      for (; first < behind; ++first)
        if (ran) of_whole.push_back(std::move(outcomes[first]));
      if (ran) whole.push_back(row);
    }
    made.reports.push_back(report_of(shown, c, whole, of_whole, files));
  }
  return made;
}

Status make_folder(const std::string& path) {
  std::error_code refused;
  std::filesystem::create_directories(path, refused);
  if (refused) return flag_error("--out", "the folder " + path + " cannot be made", "a path that can be written to");
  return {};
}

} // namespace compared

// SPDX-License-Identifier: Apache-2.0
// The rows of a comparison: runs them, once for each seed, and publishes what they gave.
#include "sluice/report/html.hpp"
#include "sluice/report/json.hpp"
#include "sluice/report/seeds.hpp"
#include "sluice/report/unfinished_file.hpp"

#include "compare/comparison.hpp"
#include "compare/outcome.hpp"
#include "shared/progress.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

std::string trace_name(const System& system, bool deposit, const std::string& scale) {
  return fmt::format("{}{}-x{}.json", system.name, deposit ? "-deposit" : "", scale);
}

/// What an earlier run left, which a reader would take for this one's. Other files stay.
void remove_traces(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    for (const System& system : systems())
      for (const bool deposit : {false, true})
        if (name.ends_with(".json") && name.starts_with(fmt::format("{}{}-x", system.name, deposit ? "-deposit" : "")))
          std::filesystem::remove(entry.path(), ignored);
  }
}

/// Of one seed's run that is not the first only the figures are shown.
void forget_curves(Outcome& outcome) {
  SystemReport& report = outcome.report;
  report.ttft_cdf.clear();
  report.tbt_cdf.clear();
  report.e2e_cdf.clear();
  report.series = {};
  report.iteration = {};
  outcome.trace.clear();
  for (Outcome& tenant : outcome.tenants) forget_curves(tenant);
}

/// The runs of one row as one, tenant by tenant.
Outcome of_seeds(std::span<Outcome> runs, const Comparison& c) {
  if (runs.size() == 1) return std::move(runs.front());
  std::vector<SystemReport> reports;
  for (Outcome& run : runs) reports.push_back(std::move(run.report));
  Outcome all{.report = joined(std::move(reports), c.workload.seeds), .trace = std::move(runs.front().trace)};
  for (std::size_t tenant = 0; tenant < runs.front().tenants.size(); ++tenant) {
    std::vector<SystemReport> own;
    for (Outcome& run : runs) own.push_back(std::move(run.tenants[tenant].report));
    std::string trace = std::move(runs.front().tenants[tenant].trace);
    all.tenants.push_back({.report = joined(std::move(own), c.workload.seeds), .trace = std::move(trace)});
  }
  return all;
}

} // namespace

Expected<ComparisonReport> compare_all(const Options& options, const Comparison& c, Status& files) {
  ComparisonReport report{c.workload, {}, options.baseline};
  struct Row {
    const System* system;
    double scale;
    bool deposit;
  };
  std::vector<Row> rows;
  for (const double scale : options.slo_scales)
    for (const bool deposit : {false, true})
      for (const System* system : c.systems)
        if (deposit ? c.with_deposit && !system->deposit_never : c.without_deposit)
          rows.push_back({system, scale, deposit});
  if (rows.empty()) return flag_error("--deposit", "none of these systems has a deposit", "off, or a system besides");

  const std::filesystem::path traces = std::filesystem::path{options.out} / "traces";
  if (!options.out.empty()) {
    std::error_code refused;
    std::filesystem::create_directories(traces, refused);
    if (refused)
      return flag_error("--out", "the folder " + options.out + " cannot be made", "a path that can be written to");
    remove_traces(traces);
  }
  // Runs know nothing of each other: each has its engine and its reading of the workload. A row has a run a seed.
  const std::vector<Setup> setups = c.redrawn.empty() ? std::vector{c.setup} : c.redrawn;
  const std::size_t runs = rows.size() * setups.size();
  const auto each = static_cast<double>(c.workload.requests);
  Progress progress(each * static_cast<double>(runs), stderr,
                    options.quiet ? Progress::Style::silent : Progress::Style::detect);
  std::vector<double> ended(runs, 0);
  std::mutex telling; // of `progress` and `ended`
  std::vector<Outcome> outcomes(runs);
  std::vector<Status> statuses(runs);
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> failed{runs}; // the first run in order that did: those before it are finished
  const auto work = [&] {
    for (std::size_t i = next++; i < runs && i < failed; i = next++) {
      const Row& row = rows[i / setups.size()];
      const std::size_t seed = i % setups.size();
      std::string label =
          fmt::format("{}{}{}{} at SLO x{:g}", options.case_label, options.case_label.empty() ? "" : ": ",
                      row.system->name, row.deposit ? " + deposit" : "", row.scale);
      if (setups.size() > 1) label += fmt::format(", seed {}", c.workload.seeds[seed]);
      const Request request{.setup = setups[seed],
                            .slo = {.ttft = Seconds{options.slo_ttft}, .tbt = c.base_slo * row.scale},
                            .deposit = row.deposit,
                            .rule = !c.rule.empty() ? c.rule : row.system->rule,
                            .details = !options.out.empty() && seed == 0,
                            .tell = [&](std::int64_t count) {
                              const std::lock_guard lock(telling);
                              ended[i] = static_cast<double>(count);
                              double sum = 0;
                              for (const double one : ended) sum += one;
                              progress.update(sum, label);
                            }};
      statuses[i] = row.system->run(request, outcomes[i]);
      if (seed > 0) forget_curves(outcomes[i]);
      if (!statuses[i])
        for (std::size_t least = failed; i < least && !failed.compare_exchange_weak(least, i);) {
        }
      const std::lock_guard lock(telling);
      ended[i] = each;
    }
  };
  {
    const auto processors = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
    const auto threads = std::min<std::int64_t>(options.threads.value_or(processors), static_cast<std::int64_t>(runs));
    std::vector<std::jthread> others;
    for (std::int64_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  if (failed < runs) return statuses[failed].error();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    Outcome outcome = of_seeds({outcomes.begin() + static_cast<std::ptrdiff_t>(i * setups.size()), setups.size()}, c);
    outcome.report.name = row.system->name;
    outcome.report.control = row.system->control;
    outcome.report.slo_scale = row.scale;
    const auto keep = [&](Outcome& one, const std::string& tenant) {
      if (!options.out.empty()) {
        const std::string name =
            trace_name(*row.system, row.deposit, fmt::format("{:g}{}{}", row.scale, tenant.empty() ? "" : "-", tenant));
        if (files.ok()) files = write_whole((traces / name).string(), one.trace);
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
      tenant.report.slo_scale = row.scale;
      keep(tenant, who);
    }
  }
  return report;
}

Status write_report(const Options& options, const ComparisonReport& report) {
  if (options.out.empty()) return {};
  const std::filesystem::path out{options.out};
  const JsonOptions json{.wall_times = options.wall_times};
  for (const auto& [name, text] :
       {std::pair{"report.json", report_json(report, json)}, std::pair{"report.html", report_html(report)}})
    if (Status written = write_whole((out / name).string(), text); !written) return written;
  return {};
}

} // namespace compared

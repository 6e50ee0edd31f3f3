// SPDX-License-Identifier: Apache-2.0
// report.json and tables of sluice-run.
#include "run/tables.hpp"

#include "sluice/report/csv.hpp"
#include "sluice/report/csv_tables.hpp"
#include "sluice/report/json.hpp"
#include "sluice/report/number_text.hpp"

#include "run/options.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>

namespace running {

using namespace sluice;
namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 6> names{"systems.csv",    "requests.csv",     "series.csv",
                                                "iterations.csv", "datapackage.json", "report.json"};

/// The same limit as sluice-compare's, for one run: a file of 140 MB.
constexpr std::size_t most_iterations = 1'000'000;

/// As in sluice-compare, without parts that only it has (seeds, scales).
WorkloadReport workload_report(const Told& told) {
  const Options& options = told.options;
  const ModelShape& shape = told.model;
  const LocalMemory& memory = told.memory;
  WorkloadReport report;
  report.trace = options.from_trace() ? fs::path(options.trace).filename().string() : "prompts of the command line";
  report.format = told.workload.format;
  report.seed = options.sampling.seed;
  report.requests = static_cast<std::int64_t>(told.workload.requests.size());
  report.model = shape.name;
  report.device = told.costs.device.name;
  report.profile = told.costs.text;
  report.budget_blocks = memory.kv.count() / shape.layers;
  report.block_tokens = Limits{}.block_tokens.count();
  report.budget_bytes = memory.of(memory.kv).count();
  report.host_budget_bytes = memory.of(memory.host).count();
  report.batch_limit = options.batch;
  report.max_batch_tokens = options.batch_tokens;
  report.rate_scale = options.rate_scale.value_or(1);
  report.base_slo_tbt_s = options.slo_tbt;
  report.slo_ttft_s = options.slo_ttft;
  report.command = options.command;
  if (!told.workload.taken_for.empty()) report.cautions.push_back(told.workload.taken_for);
  const bool gpu = options.backend != "cpu";
  report.notes.emplace_back("Run", !options.replay_clock.empty() ? "replayed in the times of a record"
                                   : gpu                         ? "for real, on a GPU"
                                                                 : fmt::format("for real, on this machine's processor, "
                                                                                                       "by {} thread{}",
                                                                               options.threads, options.threads == 1 ? "" : "s"));
  if (!gpu)
    report.notes.emplace_back("Link", options.link > 0 ? short_text(options.link / 1e9) + " GB/s, " + options.lanes
                                                       : "unlimited");
  if (options.no_wait) report.notes.emplace_back("Idle time", "left out");
  return report;
}

SystemReport system_report(const Told& told, const engines::RealComposed& system) {
  const Options& options = told.options;
  SystemReport report;
  report.name = options.system;
  report.deposit = system.deposits;
  report.control = options.system == "OneAtATime";
  report.oracle = system.foresees;
  report.slo_tbt_s = options.slo_tbt;
  report.slo_ttft_s = options.slo_ttft;
  report.transfer = system.transfer;
  report.engine_type = system.engine;
  if (!told.ran) report.livelock = told.ran.error().what;
  collect(report, told.results.summary, told.results.end);
  return report;
}

} // namespace

Tables::Tables(OutFolder files, TraceAt at) : files_(std::move(files)) {
  iterations_.at = at; // if not all fit, rows are from the same stretch as the trace
  iterations_.max_iterations = most_iterations;
  iterations_.max_detailed = 2; // empty: no iterations are evaluated again for rows
}

std::vector<NamedFile> Tables::files_of(const Options& options) {
  std::vector<NamedFile> files;
  if (options.out.empty()) return files;
  for (const std::string_view name : names) files.emplace_back("--out", (fs::path{options.out} / name).string());
  return files;
}

Expected<std::unique_ptr<Tables>> Tables::open(const Options& options) {
  if (options.out.empty()) return std::unique_ptr<Tables>{};
  std::error_code refused;
  fs::create_directories(options.out, refused);
  if (refused)
    return flag_error("--out", "the folder " + options.out + " cannot be made", "a path that can be written to");
  Expected<OutFolder> files = OutFolder::open(options.out, names);
  if (!files) {
    Error error = files.error();
    error.where = "--out: " + error.where;
    return error;
  }
  return std::unique_ptr<Tables>(new Tables(*std::move(files), options.trace_at));
}

void Tables::hear(const AnyEvent& event) {
  if (const auto* planned = event.get<events::Planned>())
    series_.layer_block_bytes = rows_.layer_block_bytes = planned->view.geometry.layer_block_bytes;
  if (const auto* iterated = event.get<events::Iterated>()) {
    Series{}.on(series_, *iterated);
    iterations_.on(rows_, events::Iterated{iterated->record});
  }
}

Status Tables::finish(const Told& told) {
  ComparisonReport report{.workload = workload_report(told), .systems = {}, .made_by = made_by()};
  report.systems.push_back(system_report(told, told.system.composed()));
  const SystemReport& system = report.systems.front();
  const CsvRun run{.system = system.name, .deposit = system.deposit, .seed = report.workload.seed};

  const std::vector<CsvColumn> figures = csv_figure_columns();
  std::string systems = csv_head(csv_run_columns, figures), requests = csv_head(csv_run_columns, csv_request_columns),
              series = csv_head(csv_run_columns, csv_series_columns),
              iterations = csv_head(csv_run_columns, csv_iteration_columns), remark;
  append_system(
      systems, run,
      {system.transfer, Seconds{system.slo_ttft_s}, Seconds{system.slo_tbt_s}, system.oracle, system.livelock},
      system.metrics);
  append_requests(requests, run, told.results.summary, told.results.end);
  append_series(series, run, series_);
  append_iterations(iterations, run, rows_);
  const std::int64_t left_out = rows_.iterations.seen() - static_cast<std::int64_t>(rows_.iterations.size());
  if (left_out > 0)
    remark = fmt::format("at most {} iterations, around the point of the trace: {} are left out; --trace-at chooses "
                         "the point",
                         most_iterations, left_out);
  const std::array<CsvFile, 4> files{
      {{"systems", "a row for the run", csv_run_columns, figures},
       {"requests", "a row for each request", csv_run_columns, csv_request_columns},
       {"series", "memory and queue over time, in stretches of one length", csv_run_columns, csv_series_columns},
       {"iterations", "a row for each iteration", csv_run_columns, csv_iteration_columns, remark}}};
  const std::array<NamedText, 6> texts{
      {{"systems.csv", std::move(systems)},
       {"requests.csv", std::move(requests)},
       {"series.csv", std::move(series)},
       {"iterations.csv", std::move(iterations)},
       {"datapackage.json", csv_package(files, report.made_by, report.workload.command, report.workload.notes)},
       {"report.json", report_json(report)}}};
  if (Status status = files_.finish(texts); !status) {
    Error error = status.error();
    error.where = "--out: " + error.where;
    return error;
  }
  return {};
}

} // namespace running

// SPDX-License-Identifier: Apache-2.0
// The rows of a comparison: runs them one after the other, and publishes what they gave.
#include "sluice/report/html.hpp"
#include "sluice/report/json.hpp"
#include "sluice/report/table.hpp"

#include "compare/comparison.hpp"
#include "compare/outcome.hpp"
#include "progress.hpp"
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

Status write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return {};
  return Error{ErrorCode::bad_input, path.string(), "the file cannot be written", "a folder that can be written to"};
}

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

} // namespace

Expected<ComparisonReport> compare_all(const Options& options, const Comparison& c) {
  ComparisonReport report{c.workload, {}};
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
  if (!options.out.empty()) remove_traces(traces);
  const auto each = static_cast<double>(c.workload.requests);
  Progress progress(each * static_cast<double>(rows.size()), stderr,
                    options.quiet ? Progress::Style::silent : Progress::Style::detect);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string label =
        fmt::format("{}{} at SLO x{:g}", row.system->name, row.deposit ? " + deposit" : "", row.scale);
    const Request request{.setup = c.setup,
                          .slo = {.ttft = Seconds{options.slo_ttft}, .tbt = c.base_slo * row.scale},
                          .deposit = row.deposit,
                          .rule = !c.rule.empty() ? c.rule : row.system->rule,
                          .details = !options.out.empty(),
                          .tell = [&](std::int64_t ended) {
                            progress.update(each * static_cast<double>(i) + static_cast<double>(ended), label);
                          }};
    Outcome outcome;
    if (Status ran = row.system->run(request, outcome); !ran) return ran.error();
    outcome.report.name = row.system->name;
    outcome.report.control = row.system->control;
    outcome.report.slo_scale = row.scale;
    if (!options.out.empty()) {
      const std::string name = trace_name(*row.system, row.deposit, fmt::format("{:g}", row.scale));
      if (Status written = write_file(traces / name, outcome.trace); !written) return written.error();
    }
    report.systems.push_back(std::move(outcome.report));
  }
  return report;
}

Status publish(const Options& options, const ComparisonReport& report) {
  std::fputs(table_text(report).c_str(), stdout);
  if (options.out.empty()) return {};
  const std::filesystem::path out{options.out};
  const JsonOptions json{.wall_times = options.wall_times};
  for (const auto& [name, text] :
       {std::pair{"report.json", report_json(report, json)}, std::pair{"report.html", report_html(report)}})
    if (Status written = write_file(out / name, text); !written) return written;
  fmt::print("{0}/report.html  to look at\n{0}/report.json  for programs\n{0}/traces/      one per system, for "
             "ui.perfetto.dev\n",
             options.out);
  return {};
}

} // namespace compared

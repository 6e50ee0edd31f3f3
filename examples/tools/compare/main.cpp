// SPDX-License-Identifier: Apache-2.0
// sluice-compare: serves one workload with many systems, and shows which of them meets its users' SLOs, and why.
//
// The problem: the KV of a batch outgrows the device, and every system has another answer. Goals of this program: one
// command from a trace to a table that compares them alike; a report that one would rather look at than read; and to
// show how an engine is configured, fed and observed (compare/run_engine.hpp, forty lines).
#include "sluice/report/table.hpp"

#include "compare/columns.hpp"
#include "compare/command_line.hpp"
#include "compare/comparison.hpp"
#include "compare/preset.hpp"
#include "shared/whole_output.hpp"
#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using compared::CommandLine;
using compared::Comparison;
using compared::Options;
using compared::Ran;
using compared::Run;

void list_names() {
  for (const compared::System& system : compared::systems()) fmt::print("{:<22} {}\n", system.name, system.what);
  fmt::print("\n--preset:\n");
  for (const compared::Preset& preset : compared::presets()) fmt::print("{:<22} {}\n", preset.name, preset.what);
}

int fail(const Error& error) {
  std::fprintf(stderr, "sluice-compare: %s\n", error.line().c_str());
  return 2;
}

/// What would be run, of everything read.
void announce(const Run& run, const Comparison& comparison) {
  const WorkloadReport& w = comparison.workload;
  fmt::print("{}{}{}, {} requests, {}; {} on {}, {} token blocks of KV, batch {}; SLO {:.4g} s a token;", run.label,
             run.label.empty() ? "" : ": ", w.trace, w.requests, seeds_of(w), w.model, w.device, w.budget_blocks,
             w.batch_limit, w.base_slo_tbt_s);
  for (const compared::System* system : comparison.systems) fmt::print(" {}", system->name);
  fmt::print("\n");
}

/// What one comparison prints, with the files that it left.
void print_report(const Options& options, const ComparisonReport& report, bool left_files) {
  if (options.table == "full") std::fputs(table_text(report).c_str(), stdout);
  if (left_files && !options.out.empty() && options.table != "csv")
    fmt::print("{0}/report.html  to look at\n{0}/report.json  for programs\n{0}/traces/      one per system, for "
               "ui.perfetto.dev\n",
               options.out);
}

int program(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  CommandLine asked;
  if (const std::optional<int> status = asked.parse(words)) return *status;
  if (asked.options.list) {
    list_names();
    return 0;
  }
  Expected<std::vector<Run>> runs = compared::runs_of(asked, words);
  if (!runs) return fail(runs.error());
  const compared::Preset* preset = nullptr;
  if (!asked.options.preset.empty()) {
    preset = *compared::find_preset(asked.options.preset);
    if (Status checked = check_figures(*preset); !checked) return fail(checked.error());
  }
  const std::string command = compared::shell_line(words);

  // All of it is read before any of it runs: what is wrong with the last case is said at once.
  std::vector<Ran> all;
  for (const Run& run : *runs) {
    if (Status checked = compared::check_columns(run.options); !checked) return fail(checked.error());
    Expected<Comparison> comparison = prepare_seeds(run.options, command);
    if (!comparison) return fail(comparison.error());
    all.push_back({run.label, *std::move(comparison), {}});
  }
  const Options& first = runs->front().options;
  const bool csv = first.table == "csv";
  if (!first.preset_note.empty() && !csv) fmt::print("{}\n\n", first.preset_note);
  if (first.dry_run) {
    for (std::size_t i = 0; i < all.size(); ++i) announce((*runs)[i], all[i].comparison);
    return 0;
  }
  Status files; // a full disk does not take the tables with it
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Options& options = (*runs)[i].options;
    Expected<ComparisonReport> report = compare_all(options, all[i].comparison, files);
    if (!report) return fail(report.error());
    all[i].report = *std::move(report);
    if (files.ok()) files = write_report(options, all[i].report);
    print_report(options, all[i].report, files.ok());
  }
  if (first.table != "full") std::fputs(column_table(first, all).c_str(), stdout);
  if (preset != nullptr && !csv) std::fputs(figures_table(preset->figures, all).c_str(), stdout);
  return files.ok() ? 0 : fail(files.error());
}

} // namespace

int main(int argc, char** argv) {
  return with_whole_output("sluice-compare", [&] { return program(argc, argv); });
}

// SPDX-License-Identifier: Apache-2.0
// sluice-compare: serves one workload with many systems, and shows which of them meet their users' SLOs, and why.
//
// The problem: the KV of a batch outgrows the device, and every system handles that differently. Goals of this program:
// one command from a trace to a table that compares all systems on equal terms; a report that is easy to read; and an
// example of how an engine is configured, driven and observed (engines/entry.hpp).
#include "engines/program.hpp"

#include "sluice/report/audit.hpp"
#include "sluice/report/leads.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/table.hpp"
#include "sluice/workload/nlohmann/trace_kinds.hpp"

#include "compare/bound.hpp"
#include "compare/capacity.hpp"
#include "compare/columns.hpp"
#include "compare/command_line.hpp"
#include "compare/comparison.hpp"
#include "compare/devices.hpp"
#include "compare/files.hpp"
#include "compare/grid.hpp"
#include "compare/kv_transfer.hpp"
#include "compare/plot.hpp"
#include "compare/preset.hpp"
#include "compare/run.hpp"
#include "compare/sweep.hpp"
#include "compare/tune.hpp"
#include "compare/why.hpp"
#include "engines/registry.hpp"
#include "shared/crew.hpp"
#include "shared/interrupt.hpp"
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
  for (const compared::System& system : engines::simulated_systems())
    fmt::print("{:<22} {}\n", system.name, system.what);
  fmt::print("\n--preset:\n");
  for (const compared::Preset& preset : compared::presets()) fmt::print("{:<22} {}\n", preset.name, preset.what);
}

int fail(const Error& error) {
  std::fprintf(stderr, "%s: %s\n", engines::program_name(), error.line().c_str());
  return 2;
}

/// Prints what a run would do, once all input is read.
void announce(const Run& run, const Comparison& comparison) {
  const WorkloadReport& w = comparison.workload;
  fmt::print("{}{}{}, {} requests, {}; {} on {}, {}, batch {}; {};", run.label, run.label.empty() ? "" : ": ", w.trace,
             w.requests, seeds_of(w), w.model, w.device, kv_budget_text(w), w.batch_limit,
             slos_by_class(w) ? classes_line(w) : fmt::format("SLO {:.4g} s per token", w.base_slo_tbt_s));
  for (const compared::System* system : comparison.systems) fmt::print(" {}", system->name);
  fmt::print("\n");
}

/// Identifies what all comparisons serve; must be equal on every rank of a crew.
std::string told_of(const Options& options, const std::vector<Ran>& all) {
  std::string text;
  for (const Ran& ran : all) text += compared::told(options, ran.comparison) + "\n";
  return text;
}

/// Prints one comparison: who leads, the picture to open, the tables, and the files that it wrote.
void print_report(const Options& options, const ComparisonReport& report, bool left_files) {
  if (options.table == "full") {
    std::string first = leads_text(report);
    if (left_files && !options.out.empty())
      first += fmt::format("Open {}/report.html: its first picture shows who kept their SLOs.\n", options.out);
    std::fputs((first + (first.empty() ? "" : "\n") + table_text(report)).c_str(), stdout);
  }
  if (options.bound && options.table == "full") std::fputs(compared::bound_text(report).c_str(), stdout);
  if (!options.print_config.empty()) std::fputs(compared::vllm_command(report).c_str(), stdout);
  if (options.audit) std::fputs((audit_text(report) + "\n").c_str(), stdout);
  if (options.why) std::fputs(why_text(*options.why, report).c_str(), stdout);
  if (left_files && !options.out.empty() && !compared::for_programs(options))
    fmt::print(
        "{0}/report.html  for reading\n{0}/report.json  for programs\n{0}/*.csv        tables (docs/results.md)\n{1}",
        options.out, options.no_traces ? "" : options.out + "/traces/      one per system, for ui.perfetto.dev\n");
}

/// Prints the line of an interrupted program, after the finished results; returns its exit code.
int tell_interrupted(const RunCount& runs, const char* what, bool rows, std::string_view files) {
  std::fflush(stdout);
  fmt::print(stderr, "{}: interrupted: {} of {} {} finished; {}{}\n", engines::program_name(), runs.finished, runs.of,
             what, rows ? "only complete rows are shown above" : "no row is complete, so none is shown", files);
  return interrupted_code();
}
constexpr std::string_view kept = "; the same command continues from tuning.csv";
constexpr std::string_view no_files = "; no file is written: the folder of --out is unchanged";

/// Executes --capacity: one search for each system of each comparison, one table, one report.
int capacity(const Options& options, const compared::Sweep& sweep, const compared::Grid& grid, Crew& crew) {
  const Expected<compared::CapacityReport> found = find_capacities(sweep, grid, crew);
  if (!found) return fail(found.error());
  if (!crew.leads()) return 0;
  if (!found->cells.empty()) std::fputs(capacity_text(*found, options.table).c_str(), stdout);
  if (!found->searches.whole())
    return tell_interrupted(found->searches, "searches", !found->cells.empty(), options.out.empty() ? "" : no_files);
  if (options.out.empty()) return 0;
  if (Status written = compared::write_files(options, *found); !written) return fail(written.error());
  if (!compared::for_programs(options))
    fmt::print("{0}/report.html  for reading\n{0}/report.json  for programs\n{0}/*.csv        tables "
               "(docs/results.md)\n",
               options.out);
  return 0;
}

/// Executes a command line whose numbers are lists: all its comparisons, one table, one report.
int sweep(const CommandLine& asked, const std::vector<std::string>& words, Crew& crew) {
  Expected<compared::Sweep> sweep = compared::sweep_of(asked, words);
  if (!sweep) return fail(sweep.error());
  const Options& options = asked.options;
  if (options.cells && options.out.empty())
    return fail(compared::flag_error("--cells", "there is no folder for reports", "--out as well"));
  for (const auto& [flag, given] : {std::pair{"--tokens", options.tokens}, {"--no-traces", options.no_traces}})
    if (given && (options.capacity || !options.cells))
      return fail(compared::flag_error(flag,
                                       options.capacity ? "a search for capacities leaves no runs"
                                                        : "a grid leaves no files of single comparisons",
                                       options.capacity ? "no such flag" : "--cells and --out as well"));
  if (options.why)
    return fail(compared::flag_error("--why", "it is of one comparison, and this is a grid or a search",
                                     "one number a flag, and no --capacity"));
  Options columns = sweep->cells.front().run.options; // a preset may choose its columns
  if (columns.table == "full") columns.table = "md";  // `full` has fixed columns
  if (Status checked = compared::check_columns(columns); !checked) return fail(checked.error());
  columns.table = options.table;
  if (options.capacity) {
    if (Status checked = compared::check_capacity(asked, *sweep); !checked) return fail(checked.error());
  }
  if (asked.given("--trace-at") && !options.capacity && !options.cells)
    return fail(compared::flag_error("--trace-at", "a grid leaves no traces", "--cells as well"));
  Expected<compared::Grid> grid = prepare_grid(*sweep, compared::shell_line(words));
  const Status prepared = grid ? Status{} : Status{grid.error()};
  if (Status agreed = crew.agree(prepared, grid ? told_of(columns, grid->cells) : ""); !agreed)
    return fail(agreed.error());
  if (!grid->note.empty() && !compared::for_programs(options)) fmt::print("{}\n\n", grid->note);
  if (!options.plot.empty())
    if (Status checked = compared::check_plot(options, grid->cells.size(), grid->axes); !checked)
      return fail(checked.error());
  if (options.dry_run) {
    for (std::size_t i = 0; i < grid->cells.size(); ++i) {
      Run run = sweep->cells[i].run;
      run.label = run.options.case_label;
      announce(run, grid->cells[i].comparison);
    }
    return 0;
  }
  Status files;
  if (!options.out.empty() && crew.leads()) files = compared::make_folder(options.out);
  if (!files) return fail(files.error());
  heed_interrupts();
  if (options.capacity) return capacity(options, *sweep, *grid, crew);
  const Expected<bool> led = run_grid(*sweep, *grid, crew, files);
  if (!led) return fail(led.error());
  if (!*led) return 0;
  if (!grid->runs.whole()) {
    if (!grid->cells.empty()) std::fputs(column_table(columns, grid->cells).c_str(), stdout);
    const int code = tell_interrupted(grid->runs, "runs", !grid->cells.empty(),
                                      options.out.empty() ? ""
                                      : options.cells     ? "; complete cells have their reports, and no other "
                                                            "file is written"
                                                          : no_files);
    return files.ok() ? code : fail(files.error());
  }
  if (files.ok() && !options.out.empty()) files = compared::write_files(options, *grid);
  if (files.ok() && !options.plot.empty()) files = compared::write_plot(options.plot, grid->cells, grid->axes);
  std::fputs(column_table(columns, grid->cells).c_str(), stdout);
  if (files.ok() && !options.out.empty() && !compared::for_programs(options))
    fmt::print("{0}/report.html  for reading\n{0}/report.json  for programs\n{0}/*.csv        tables "
               "(docs/results.md)\n",
               options.out);
  return files.ok() ? 0 : fail(files.error());
}

} // namespace

int compared::program(int argc, char** argv) {
  CommandLine asked;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const Expected<std::unique_ptr<Crew>> started = compared::crew_of(words);
  if (!started) return fail(started.error());
  Crew& crew = **started;
  if (const std::optional<int> status = asked.parse(words)) return *status;
  if (asked.options.devices) {
    std::fputs(compared::devices_table().c_str(), stdout);
    return 0;
  }
  if (asked.options.columns == "help") {
    std::fputs(compared::columns_text().c_str(), stdout);
    return 0;
  }
  if (!asked.options.list.empty()) {
    if (asked.options.list == "numbers")
      std::fputs(engines::numbers_text(engines::simulated_systems()).c_str(), stdout);
    else if (asked.options.list == "names")
      list_names();
    else if (asked.options.list == "formats")
      std::fputs(trace_kinds_table().c_str(), stdout);
    else
      return fail(compared::flag_error("--list", "it is '" + excerpt(asked.options.list) + "'",
                                       "--list, --list numbers or --list formats"));
    return 0;
  }
  if (Status taken = compared::take_kv_transfer(asked); !taken) return fail(taken.error());
  if (asked.given("--print-config") && asked.options.print_config != "vllm")
    return fail(compared::flag_error("--print-config", "it is '" + excerpt(asked.options.print_config) + "'", "vllm"));
  if (asked.given("--print-config") &&
      (!asked.listed.empty() || asked.options.capacity || asked.options.table != "full"))
    return fail(compared::flag_error("--print-config", "this is a grid, a search or a table for a program",
                                     "one comparison, with --table full"));
  crew.threads(asked.options.threads);
  for (const char* flag : {"--trace-at", "--wall-times"})
    if (asked.given(flag) && asked.options.out.empty())
      return fail(compared::flag_error(flag, "there is no folder for its output", "--out as well"));
  if (asked.options.audit && (!asked.listed.empty() || asked.options.capacity || compared::for_programs(asked.options)))
    return fail(compared::flag_error(
        "--audit", compared::for_programs(asked.options) ? "the table is for a program" : "this is a grid or a search",
        "one comparison, with --table full or md"));
  if (asked.given("--tune") && asked.options.tune.empty())
    return fail(compared::flag_error("--tune", "it is empty", "NAME=VALUE,..., or no --tune"));
  if (!asked.options.tune.empty() && (!asked.listed.empty() || asked.options.capacity))
    return fail(compared::flag_error("--tune", "it is of one comparison, and this is a grid or a search",
                                     "one number a flag, and no --capacity"));
  if (!asked.listed.empty() || asked.options.capacity) return sweep(asked, words, crew);
  if (asked.options.cells)
    return fail(compared::flag_error("--cells", "this is one comparison", "a grid: a number with commas"));
  Expected<std::vector<Run>> runs = compared::runs_of(asked, words);
  if (!runs) return fail(runs.error());
  const compared::Preset* preset = nullptr;
  if (!asked.options.preset.empty()) {
    preset = *compared::find_preset(asked.options.preset);
    if (Status checked = check_figures(*preset); !checked) return fail(checked.error());
  }
  const std::string command = compared::shell_line(words);

  // All input is read before anything runs, so an error in the last case is reported at once.
  std::vector<Ran> all;
  Status prepared;
  for (Run& run : *runs) {
    if (Status checked = compared::check_columns(run.options); !checked) return fail(checked.error());
    run.options = judging(run.options);
    Expected<Comparison> comparison = prepare_seeds(run.options, command);
    if (!comparison) {
      prepared = comparison.error();
      break;
    }
    if (Status checked = compared::check_why(run.options, comparison->workload.requests); !checked) {
      prepared = checked.error();
      break;
    }
    all.push_back({run.label, *std::move(comparison), {}});
  }
  if (Status agreed = crew.agree(prepared, told_of(runs->front().options, all)); !agreed) return fail(agreed.error());
  const Options& first = runs->front().options;
  const bool csv = compared::for_programs(first);
  if (!first.preset_note.empty() && !csv) fmt::print("{}\n\n", first.preset_note);
  if (!first.plot.empty())
    if (Status checked = compared::check_plot(first, all.size(), {}); !checked) return fail(checked.error());
  if (first.dry_run) {
    for (std::size_t i = 0; i < all.size(); ++i) announce((*runs)[i], all[i].comparison);
    return 0;
  }
  heed_interrupts();
  RunCount runs_of_all;
  Status files; // a full disk must not lose the tables
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Options& options = (*runs)[i].options;
    if (!options.tune.empty() && files.ok() && !options.out.empty()) files = compared::make_folder(options.out);
    if (!options.tune.empty()) {
      const Expected<RunCount> tuned = tune(options, command, all[i].comparison, crew);
      if (!tuned) return fail(tuned.error());
      if (!tuned->whole()) return tell_interrupted(*tuned, "runs that tune", false, options.out.empty() ? "" : kept);
    }
    const compared::Asked one{options, all[i].comparison};
    Expected<compared::Compared> made = compared::compare_all({&one, 1}, crew, files);
    if (!made) return fail(made.error());
    if (!crew.leads()) continue;
    const bool whole = made->runs.whole();
    runs_of_all += made->runs;
    all[i].report = std::move(made->reports.front());
    if (!all[i].report.systems.empty()) print_report(options, all[i].report, files.ok() && whole);
  }
  if (!crew.leads()) return 0;
  if (!runs_of_all.whole()) {
    std::erase_if(all, [](const Ran& ran) { return ran.report.systems.empty(); });
    if (first.table != "full" && !all.empty()) std::fputs(column_table(first, all).c_str(), stdout);
    const int code = tell_interrupted(runs_of_all, "runs", !all.empty(),
                                      first.out.empty()   ? ""
                                      : runs->size() == 1 ? no_files
                                                          : "; complete comparisons have their reports, and no "
                                                            "other file is written");
    return files.ok() ? code : fail(files.error());
  }
  if (files.ok() && !first.plot.empty()) files = compared::write_plot(first.plot, all, {});
  if (first.table != "full") std::fputs(column_table(first, all).c_str(), stdout);
  if (preset != nullptr && !csv) std::fputs(figures_table(preset->figures, all).c_str(), stdout);
  return files.ok() ? 0 : fail(files.error());
}

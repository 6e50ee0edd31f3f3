// SPDX-License-Identifier: Apache-2.0
// Writes the files of --out.
#include "compare/files.hpp"

#include "sluice/report/csv.hpp"
#include "sluice/report/html.hpp"
#include "sluice/report/json.hpp"
#include "sluice/report/order.hpp"

#include "compare/capacity.hpp"
#include "compare/grid.hpp"
#include "compare/rows.hpp"
#include "compare/tenants.hpp"
#include "compare/zlib/gzip.hpp"
#include "engines/registry.hpp"
#include "shared/out_folder.hpp"
#include "shared/sizes.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

/// Writes a row for each run of a report. Each row begins with `place`: the cells of place_columns(), or nothing.
void append_systems(std::string& text, const ComparisonReport& report, const std::string& place = {}) {
  const std::vector<std::uint64_t> seeds = seeds_served(report.workload);
  for (const SystemReport& row : report.systems) {
    const std::size_t slash = row.name.find('/');
    CsvRun run{.system = row.name.substr(0, slash),
               .tenant = slash == std::string::npos ? std::string{} : row.name.substr(slash + 1),
               .deposit = row.deposit,
               .slo_scale = row.slo_scale};
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      run.seed = seeds[i];
      text += place;
      const bool one = row.per_seed.empty();
      append_system(text, run,
                    {row.transfer, Seconds{row.slo_ttft_s}, Seconds{row.slo_tbt_s}, row.oracle,
                     one ? row.livelock : row.livelocks[i]},
                    one ? row.metrics : row.per_seed[i]);
    }
    if (!row.as_recorded) continue;
    run.seed.reset();
    text += place;
    append_system(text, run, {row.transfer, Seconds{row.slo_ttft_s}, Seconds{row.slo_tbt_s}, row.oracle, {}},
                  *row.as_recorded);
  }
}

/// Returns the workload and the machine of the runs, which a table of numbers does not contain.
std::vector<std::pair<std::string, std::string>> facts_of(const ComparisonReport& report) {
  std::vector<std::pair<std::string, std::string>> facts = report.workload.notes;
  if (const std::vector<ReportBlock> blocks = blocks_of(report); !blocks.empty())
    facts.emplace(facts.begin(), "Comparison", caption_of(report.workload, blocks.front()));
  return facts;
}

/// classes.csv: a row for each SLO class of each run.
constexpr CsvColumn class_column{"slo_class", "string", "", "the class of these requests, by its SLO and priority"};
std::string classes_csv(const ComparisonReport& report, std::span<const CsvColumn> first,
                        std::span<const CsvColumn> figures) {
  std::string text = csv_head(first, figures);
  for (std::size_t i = 0; i < report.workload.slo_classes.size(); ++i) {
    std::string name;
    CsvRow(name).cell(report.workload.slo_classes[i].name);
    name.back() = ',';
    append_systems(text, class_report(report, i), name);
  }
  return text;
}

/// Returns the columns of the swept flags, which precede the columns of a run. Flag names are as in report.json. The
/// columns are views into `axes`.
std::vector<CsvColumn> place_columns(const std::vector<Axis>& axes) {
  std::vector<CsvColumn> columns;
  for (const Axis& axis : axes)
    columns.push_back({axis.name, axis.numbers ? "number" : "string", "",
                       axis.name == "case" ? "of the preset" : "of the flag of that name, which was swept"});
  return columns;
}
/// Returns the cells of these columns, each followed by a comma.
std::string place_of(const std::vector<Axis>& axes, const std::vector<std::pair<std::string, std::string>>& at,
                     const std::string& label) {
  std::string text;
  for (const Axis& axis : axes) {
    std::string cell = label;
    for (const auto& [name, value] : at)
      if (name == axis.name) cell = value;
    if (const std::optional<double> number = axis.numbers ? read_quantity(cell) : std::nullopt)
      CsvRow(text).cell(*number);
    else
      CsvRow(text).cell(cell);
    text.back() = ','; // replaces the line end
  }
  return text;
}

/// Returns the most rows that each run may have: the requested number, otherwise an even share of what one file may
/// have. A million rows take 140 MB, enough for up to fifteen whole runs of the demo. The limit is known before
/// anything runs, so that no rows are recorded only to be dropped.
std::size_t rows_a_run(const Options& options, const Comparison& comparison) {
  constexpr std::size_t most = 1'000'000, least = 1'000;
  if (options.iteration_rows) return static_cast<std::size_t>(*options.iteration_rows);
  const Expected<std::vector<Row>> rows = rows_of(comparison);
  const std::size_t tenants = comparison.setup.tenants ? comparison.setup.tenants->each.size() : 1;
  return std::max(least, most / ((rows ? rows->size() : 1) * seeds_in(comparison) * tenants));
}

std::vector<CsvColumn> joined_columns(std::vector<CsvColumn> first, std::span<const CsvColumn> others) {
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

/// The search for a system's capacity on one seed's workload, as a row.
struct CapacityFigures {
  const CapacitySearch& search;
  const RateLattice& lattice;
  double own_rate;

  [[nodiscard]] bool number() const { return search.found == Found::between; }
  [[nodiscard]] double scale() const { return number() ? lattice.rate(search.step) : Interval::absent; }
};
constexpr CsvColumnOf<CapacityFigures> capacity_cells[] = {
    {"found", "", "between; below: no octave meets the share; above: the highest does",
     [](auto& of) { return name_of(of.search.found); }},
    {"rate_scale", "", "the capacity, of the workload's own rate; empty: it lies beyond an end",
     [](auto& of) { return of.scale(); }},
    {"requests_per_s", "1/s", "the capacity; empty: it lies beyond an end",
     [](auto& of) { return of.scale() * of.own_rate; }},
    {"slo_attainment", "", "at the capacity, a share of the requests",
     [](auto& of) { return of.number() ? of.search.at(of.search.step).attained : Interval::absent; }},
    {"monotone", "", "whether no lower rate that was tried misses the share",
     [](auto& of) { return of.search.monotone(); }},
    {"own_requests_per_s", "1/s", "the workload's own rate, at rate scale 1", [](auto& of) { return of.own_rate; }},
};
constexpr auto capacity_columns = csv_columns(capacity_cells);

/// A rate that a search tried, as a row.
struct Tried {
  const Probe& probe;
  double scale, own_rate;
};
constexpr CsvColumnOf<Tried> probe_cells[] = {
    {"rate_scale", "", "of the workload's own rate: --rate-scale with it repeats the run",
     [](auto& of) { return of.scale; }},
    {"requests_per_s", "1/s", "the rate", [](auto& of) { return of.scale * of.own_rate; }},
    {"slo_attainment", "", "share of the requests that met all promises", [](auto& of) { return of.probe.attained; }},
    {"livelocked", "", "whether the run was ended, as nothing went on", [](auto& of) { return of.probe.livelocked; }},
};
constexpr auto probe_columns = csv_columns(probe_cells);

/// Writes `texts` into the folder, and removes the files that earlier runs with this program's systems left there.
Status write_files(const std::string& folder, std::span<const NamedText> texts) {
  std::vector<std::string_view> names;
  for (const System& system : engines::simulated_systems()) names.push_back(system.name);
  return write_all(folder, texts, names);
}

} // namespace

Wanted wanted_of(const Options& options, const Comparison& comparison, const System& system, double slo_scale,
                 std::size_t seed) {
  Wanted wanted{.run = {.system = std::string{system.name}, .slo_scale = slo_scale}, .trace_at = options.trace_at};
  wanted.run.seed = seeds_served(comparison.workload)[seed];
  wanted.iterations = rows_a_run(options, comparison);
  wanted.tokens = options.tokens;
  return wanted;
}

CsvRows take_rows(std::span<Outcome> outcomes) {
  CsvRows all;
  for (Outcome& outcome : outcomes) {
    CsvRows own = std::exchange(outcome.csv, {}), tenants = take_rows(outcome.tenants);
    for (const CsvRows* rows : {&own, &tenants}) {
      all.requests += rows->requests;
      all.series += rows->series;
      all.iterations += rows->iterations;
      all.tokens += rows->tokens;
      all.iterations_left_out += rows->iterations_left_out;
    }
  }
  return all;
}

Status write_files(const Asked& asked, const ComparisonReport& report, const CsvRows& rows,
                   std::span<NamedText> traces) {
  const auto& [options, comparison] = asked;
  const std::vector<CsvColumn> figures = csv_figure_columns();
  std::string remark;
  if (rows.iterations_left_out > 0)
    remark = fmt::format("of each run at most {} iterations, around the point of its trace: {} in all are left out; "
                         "--iteration-rows takes more, --trace-at chooses the point",
                         rows_a_run(options, comparison), rows.iterations_left_out);
  std::vector<CsvFile> files{
      {{"systems", "a row for each run of a system", csv_run_columns, figures},
       {"requests", "a row for each request of each run", csv_run_columns, csv_request_columns},
       {"series", "memory and queue of each run over time, in stretches of one length", csv_run_columns,
        csv_series_columns},
       {"iterations", "a row for each iteration of each run", csv_run_columns, csv_iteration_columns, remark}}};
  const std::vector<CsvColumn> class_columns = joined_columns({class_column}, csv_run_columns);
  if (!report.workload.slo_classes.empty())
    files.push_back({"classes", "a row for each SLO class of each run of a system", class_columns, figures});
  if (options.tokens)
    files.push_back({.name = "tokens",
                     .what = "a row for each token of each run",
                     .run = csv_run_columns,
                     .columns = csv_token_columns,
                     .gzipped = true});
  std::string systems = csv_head(csv_run_columns, figures);
  append_systems(systems, report);
  std::vector<NamedText> texts{
      {"systems.csv", std::move(systems)},
      {"requests.csv", csv_head(csv_run_columns, csv_request_columns) + rows.requests},
      {"series.csv", csv_head(csv_run_columns, csv_series_columns) + rows.series},
      {"iterations.csv", csv_head(csv_run_columns, csv_iteration_columns) + rows.iterations},
      {"datapackage.json", csv_package(files, report.made_by, report.workload.command, facts_of(report))},
      {"report.json", report_json(report, {.wall_times = options.wall_times})},
      {"report.html", report_html(report)}};
  if (!report.workload.slo_classes.empty())
    texts.emplace_back("classes.csv", classes_csv(report, class_columns, figures));
  if (options.tokens)
    texts.emplace_back("tokens.csv.gz", gzipped(csv_head(csv_run_columns, csv_token_columns)) + rows.tokens);
  texts.insert(texts.end(), std::move_iterator(traces.begin()), std::move_iterator(traces.end()));
  return write_files(options.out, texts);
}

Status write_files(const Options& options, const Grid& grid) {
  const std::vector<CsvColumn> first = joined_columns(place_columns(grid.axes), csv_run_columns);
  const std::vector<CsvColumn> figures = csv_figure_columns();
  std::string systems = csv_head(first, figures);
  for (const Ran& cell : grid.cells) append_systems(systems, cell.report, place_of(grid.axes, cell.at, cell.label));
  const std::array<CsvFile, 1> files{{{"systems", "a row for each run of a system in each cell", first, figures,
                                       "requests and iterations are in the cells' own folders: --cells"}}};
  const std::array<NamedText, 4> texts{{{"systems.csv", std::move(systems)},
                                        {"datapackage.json", csv_package(files, made_by(), grid.command)},
                                        {"report.json", grid_json(grid, {.wall_times = options.wall_times})},
                                        {"report.html", grid_html(grid)}}};
  return write_files(options.out, texts);
}

Status write_files(const Options& options, const CapacityReport& report) {
  const std::vector<CsvColumn> first = joined_columns(place_columns(report.axes), csv_run_columns);
  std::string capacities = csv_head(first, capacity_columns), probes = csv_head(first, probe_columns);
  for (const CapacityCell& cell : report.cells) {
    const std::string place = place_of(report.axes, cell.at, cell.label);
    const std::vector<std::uint64_t> seeds = seeds_served(cell.workload);
    for (const CapacityRow& row : cell.rows)
      for (std::size_t i = 0; i < row.seeds.size(); ++i) {
        const CsvRun run{.system = row.name, .deposit = row.deposit, .slo_scale = row.slo_scale, .seed = seeds[i]};
        const CapacitySearch& search = row.seeds[i];
        capacities += place;
        {
          CsvRow cells(capacities);
          append_cells(cells, csv_run_cells, run);
          append_cells(cells, capacity_cells, {search, report.lattice, row.own_rates[i]});
        }
        for (const Probe& probe : search.probes) {
          probes += place;
          CsvRow cells(probes);
          append_cells(cells, csv_run_cells, run);
          append_cells(cells, probe_cells, {probe, report.lattice.rate(probe.step), row.own_rates[i]});
        }
      }
  }
  const std::array<CsvFile, 2> files{
      {{"capacities", "a row for each search: of a system, on the workload of a seed", first, capacity_columns},
       {"probes", "a row for each rate that a search tried", first, probe_columns}}};
  const std::array<NamedText, 5> texts{{{"capacities.csv", std::move(capacities)},
                                        {"probes.csv", std::move(probes)},
                                        {"datapackage.json", csv_package(files, made_by(), report.command)},
                                        {"report.json", capacity_json(report)},
                                        {"report.html", capacity_html(report)}}};
  return write_files(options.out, texts);
}

} // namespace compared

// SPDX-License-Identifier: Apache-2.0
// Comparisons of a grid: reads them, runs them, and writes them as JSON.
#include "compare/grid.hpp"

#include "sluice/report/number_text.hpp"

#include "shared/crew.hpp"
#include "shared/sizes.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

/// With `--slo-base fixed`, a later cell has the first cell's SLO, and its command contains the number.
void fix_slo(Cell& cell, Seconds first) {
  Options& options = cell.run.options;
  if (options.slo_base != "fixed" || options.slo_tbt) return;
  options.slo_tbt = first.count();
  for (const char* spelt : {"--slo-base fixed", "--slo-base=fixed"})
    if (const std::size_t at = cell.command.find(spelt); at != std::string::npos)
      cell.command.replace(at, std::string_view{spelt}.size(), fmt::format("--slo-tbt {}", first.count()));
}

/// Reports cells whose SLOs differ although no flag requests it: a sweep of memory changes them, too.
std::string slo_note(const Grid& grid) {
  std::vector<std::string> each;
  for (const Ran& cell : grid.cells)
    if (std::string text = time_text(cell.comparison.base_slo.count());
        std::find(each.begin(), each.end(), text) == each.end())
      each.push_back(std::move(text));
  if (each.size() < 2) return {};
  return fmt::format("The base SLO per token is each cell's own: {}. --slo-base fixed takes the first cell's for all.",
                     fmt::join(each, ", "));
}

} // namespace

Expected<Grid> prepare_grid(Sweep& sweep, const std::string& command) {
  Grid grid{.axes = sweep.axes, .cells = {}, .command = command, .note = {}};
  if (!sweep.cells.empty()) grid.baseline = sweep.cells.front().run.options.baseline;
  for (Cell& cell : sweep.cells) {
    if (!grid.cells.empty()) fix_slo(cell, grid.cells.front().comparison.base_slo);
    const Options& options = cell.run.options;
    Expected<Comparison> comparison = prepare_seeds(options, cell.command);
    if (!comparison) {
      Error error = comparison.error();
      if (!options.case_label.empty()) error.what += " (at " + options.case_label + ")";
      return error;
    }
    grid.note = options.preset_note;
    grid.cells.push_back({cell.run.label, *std::move(comparison), {}, cell.at});
  }
  const bool stated =
      std::any_of(sweep.axes.begin(), sweep.axes.end(), [](const Axis& axis) { return axis.name == "slo-tbt"; });
  if (const std::string note = stated ? "" : slo_note(grid); !note.empty())
    grid.note += (grid.note.empty() ? "" : "\n") + note;
  return grid;
}

namespace {

/// Removes the cells of an interrupted grid that have no results.
void leave_out_empty(Grid& grid) {
  std::erase_if(grid.cells, [](const Ran& cell) { return cell.report.systems.empty(); });
}

} // namespace

Expected<bool> run_grid(const Sweep& sweep, Grid& grid, Crew& crew, Status& files) {
  std::vector<Asked> all;
  for (std::size_t i = 0; i < grid.cells.size(); ++i)
    all.push_back({sweep.cells[i].run.options, grid.cells[i].comparison});
  if (!all.front().options.cells) {
    Expected<Compared> made = compare_all(all, crew, files);
    if (!made) return made.error();
    if (!crew.leads()) return false;
    grid.runs = made->runs;
    for (std::size_t i = 0; i < all.size(); ++i) grid.cells[i].report = std::move(made->reports[i]);
    leave_out_empty(grid);
    return true;
  }
  for (std::size_t i = 0; i < all.size(); ++i) { // only one comparison's curves are in memory at a time
    Expected<Compared> made = compare_all({&all[i], 1}, crew, files);
    if (!made) return made.error();
    if (!crew.leads()) continue;
    grid.runs += made->runs;
    grid.cells[i].report = std::move(made->reports.front());
    for (SystemReport& row : grid.cells[i].report.systems) {
      row.ttft_cdf.clear(), row.tbt_cdf.clear(), row.e2e_cdf.clear(), row.distributions.clear();
      row.time = {};
      row.series = {};
      row.iteration = {};
    }
  }
  leave_out_empty(grid);
  return crew.leads();
}

namespace {

/// Writes a number in SI units, whatever unit the command line uses.
void write_place(JsonWriter& json, const std::string& value, bool number) {
  if (const std::optional<double> read = number ? read_quantity(value) : std::nullopt)
    json.value(*read);
  else
    json.value(value);
}

} // namespace

void write_axis(JsonWriter& json, const Axis& axis) {
  json.begin_object().field("name", axis.name).field("numbers", axis.numbers).key("values").begin_array();
  for (const std::string& value : axis.values) write_place(json, value, axis.numbers);
  json.end_array();
  const auto has_unit = [](const std::string& value) {
    return !value.empty() && (value.back() == 'B' || value.back() == 's');
  };
  if (axis.numbers && std::any_of(axis.values.begin(), axis.values.end(), has_unit)) {
    json.key("shown").begin_array();
    for (const std::string& value : axis.values) json.value(value);
    json.end_array();
  }
  json.end_object();
}

void write_at(JsonWriter& json, const std::vector<std::pair<std::string, std::string>>& at, const std::string& label) {
  json.begin_object();
  for (const auto& [axis, value] : at) {
    json.key(axis);
    write_place(json, value, true);
  }
  if (!label.empty()) json.field("case", label);
  json.end_object();
}

std::string grid_json(const Grid& grid, const JsonOptions& options) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().line(2);
  detail::write_made_by(json, made_by());
  json.line(2).key("grid").begin_object().field("command", grid.command).field("note", grid.note);
  json.line(4).key("axes").begin_array();
  for (const Axis& axis : grid.axes) {
    json.line(6);
    write_axis(json, axis);
  }
  json.end_array().end_object().line(2).key("cells").begin_array();
  for (const Ran& cell : grid.cells) {
    json.line(4).begin_object().key("at");
    write_at(json, cell.at, cell.label);
    detail::write_report_members(json, cell.report, options, 6);
    json.end_object();
  }
  json.line(2).end_array().line().end_object();
  text += '\n';
  return text;
}

} // namespace compared

// SPDX-License-Identifier: Apache-2.0
// Grid: the results of a sweep as tables, as JSON and as a page with a plot over the swept flags.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/report/json.hpp"

#include "compare/columns.hpp"
#include "compare/sweep.hpp"

#include <string>
#include <utility>
#include <vector>

namespace sluice {
class Crew;
}

namespace compared {

struct Grid {
  std::vector<Axis> axes;
  std::vector<Ran> cells; ///< `Ran::at` is a cell's position
  std::string command;    ///< the command that repeats the whole grid
  std::string note;       ///< from a preset
  std::string baseline{}; ///< the reference of paired comparisons; empty: the best of each cell
  sluice::RunCount runs{};
};

/// Reads all inputs of the cells. Error messages name the cell.
sluice::Expected<Grid> prepare_grid(Sweep& sweep, const std::string& command);

/// Runs all cells in parallel; with `--cells` one after another, each with its own report. Returns false if another
/// process leads the crew, which then has the grid. After an interrupt, the grid has the cells with at least one
/// complete row.
sluice::Expected<bool> run_grid(const Sweep& sweep, Grid& grid, sluice::Crew& crew, sluice::Status& files);

/// Returns report.json and report.html of a grid. Equal grids give equal bytes.
std::string grid_json(const Grid& grid, const sluice::JsonOptions& options = {});
std::string grid_html(const Grid& grid);
/// Writes an axis, and a cell's position on the axes; used by the grid and by capacities.
void write_axis(sluice::JsonWriter& json, const Axis& axis);
void write_at(sluice::JsonWriter& json, const std::vector<std::pair<std::string, std::string>>& at,
              const std::string& label);

/// The properties that vary between the rows of one table of a page: each has its own column.
struct Varied {
  bool seeds = false, scales = false, cases = false;
};
/// Heads and cells of a page's table that identify a row's run: its position on the axes, its case, its SLO.
std::string place_heads(const std::vector<std::pair<std::string, std::string>>& at, const Varied& what);
std::string place_cells(const std::vector<std::pair<std::string, std::string>>& at, const std::string& label,
                        double slo_scale, const Varied& what);
/// Returns the axes, for the list of a page's facts.
std::string axis_facts(const std::vector<Axis>& axes);

} // namespace compared

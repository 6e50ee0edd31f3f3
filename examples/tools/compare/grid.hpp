// SPDX-License-Identifier: Apache-2.0
// Grid: what came of a sweep, as tables, as JSON and as a page with a plot against what was swept.
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
  std::vector<Ran> cells; ///< `Ran::at` is each one's place
  std::string command;    ///< of all
  std::string note;       ///< of a preset
  sluice::RunCount runs{};
};

/// Reads everything that the cells serve. The first error says of which cell it is.
sluice::Expected<Grid> prepare_grid(Sweep& sweep, const std::string& command);

/// Runs all cells beside one another; with `--cells` one after the other, each with its own report. False where the
/// crew is led by another process, which alone has the grid. After an interrupt the grid has the cells of which any row
/// is whole.
sluice::Expected<bool> run_grid(const Sweep& sweep, Grid& grid, sluice::Crew& crew, sluice::Status& files);

/// report.json and report.html of a grid. Equal grids give equal bytes.
std::string grid_json(const Grid& grid, const sluice::JsonOptions& options = {});
std::string grid_html(const Grid& grid);
/// The axes' part of both, and a cell's place on them.
void write_axis(sluice::JsonWriter& json, const Axis& axis);
void write_at(sluice::JsonWriter& json, const std::vector<std::pair<std::string, std::string>>& at,
              const std::string& label);

/// What varies between the rows of one table of a page: it has a column for each.
struct Varied {
  bool seeds = false, scales = false, cases = false;
};
/// Heads and cells of a page's table that say which run a row is of: its place on the axes, its case, its SLO.
std::string place_heads(const std::vector<std::pair<std::string, std::string>>& at, const Varied& what);
std::string place_cells(const std::vector<std::pair<std::string, std::string>>& at, const std::string& label,
                        double slo_scale, const Varied& what);
/// The axes among a page's facts.
std::string axis_facts(const std::vector<Axis>& axes);

} // namespace compared

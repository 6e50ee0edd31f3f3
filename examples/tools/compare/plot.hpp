// SPDX-License-Identifier: Apache-2.0
// --plot: draws a comparison or a grid as a figure for one column of a paper.
#pragma once

#include "sluice/core/expected.hpp"

#include "compare/columns.hpp"
#include "compare/sweep.hpp"

#include <span>
#include <string>
#include <vector>

namespace compared {

/// Checks `--plot` before anything runs: the file's extension, whether this build can draw, and whether the command
/// line describes one comparison, or a grid over one flag. `axes`: the grid's axes; empty if there is no grid.
sluice::Status check_plot(const Options& options, std::size_t comparisons, const std::vector<Axis>& axes);

/// Draws and writes the file. A comparison has a row for each system, with TBT and SLO attainment and mean E2E next to
/// each other. A grid has a line for each system, with these figures against the swept flag. With several seeds there
/// are 95 % intervals. The figure is 3.33 inches wide, with text of 7 points; each system's marker and dash keep it
/// readable without colours.
sluice::Status write_plot(const std::string& path, std::span<const Ran> all, const std::vector<Axis>& axes);

/// Returns whether this build has cairo, which draws the figures.
bool can_plot();

} // namespace compared

// SPDX-License-Identifier: Apache-2.0
// --plot: a comparison or a grid as a figure of one column of a paper.
#pragma once

#include "sluice/core/expected.hpp"

#include "compare/columns.hpp"
#include "compare/sweep.hpp"

#include <span>
#include <string>
#include <vector>

namespace compared {

/// Checks `--plot` before anything runs: the file's ending, whether this build can draw, and whether what was asked for
/// is one comparison, or a grid over one flag. `axes`: the grid's; empty: no grid.
sluice::Status check_plot(const Options& options, std::size_t comparisons, const std::vector<Axis>& axes);

/// Draws and writes the file: of one comparison a row for each system, TBT and SLO attainment and mean E2E side by
/// side; of a grid these against the swept flag, a line for each system. 95 % intervals where there are several
/// seeds. 3.33 inches wide, text of 7 points, which each system's marker and dash keep readable without colours.
sluice::Status write_plot(const std::string& path, std::span<const Ran> all, const std::vector<Axis>& axes);

/// Whether this build has cairo, which draws.
bool can_plot();

} // namespace compared

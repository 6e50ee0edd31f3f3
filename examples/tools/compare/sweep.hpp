// SPDX-License-Identifier: Apache-2.0
// Sweep: a command line whose numbers are lists, as the command lines of a grid.
#pragma once

#include "sluice/core/expected.hpp"

#include "compare/command_line.hpp"
#include "compare/preset.hpp"

#include <string>
#include <utility>
#include <vector>

namespace compared {

/// What varies, and over what: a flag that was given as a list, or the cases of a preset.
struct Axis {
  std::string name;                ///< "kv-blocks"; "case"
  std::vector<std::string> values; ///< as given
  bool numbers = true;             ///< or sizes, or rates
};

/// One comparison of a grid: what is served there, and the command that serves it alone.
struct Cell {
  std::vector<std::pair<std::string, std::string>> at; ///< each axis but the case, and where on it
  Run run;
  std::string command;
};

struct Sweep {
  std::vector<Axis> axes; ///< in the order in which they were given; the first varies slowest
  std::vector<Cell> cells;
};

/// All that a command line with lists asks for. `words`: with which it was read.
sluice::Expected<Sweep> sweep_of(const CommandLine& asked, const std::vector<std::string>& words);

} // namespace compared

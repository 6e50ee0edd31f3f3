// SPDX-License-Identifier: Apache-2.0
// Sweep: turns a command line with lists of numbers into the command lines of a grid.
#pragma once

#include "sluice/core/expected.hpp"

#include "compare/command_line.hpp"
#include "compare/preset.hpp"

#include <string>
#include <utility>
#include <vector>

namespace compared {

/// A swept parameter and its values: a flag that was given as a list, or the cases of a preset.
struct Axis {
  std::string name;                ///< "kv-blocks"; "case"
  std::vector<std::string> values; ///< as given
  bool numbers = true;             ///< numbers, sizes or rates; false: names
};

/// One comparison of a grid: its workload and settings, and the command that repeats it alone.
struct Cell {
  std::vector<std::pair<std::string, std::string>> at; ///< the value on each axis except the case
  Run run;
  std::string command;
};

struct Sweep {
  std::vector<Axis> axes; ///< in the order of the command line; the first varies slowest
  std::vector<Cell> cells;
};

/// Returns all comparisons of a command line with lists. `words`: the words from which it was parsed.
sluice::Expected<Sweep> sweep_of(const CommandLine& asked, const std::vector<std::string>& words);

} // namespace compared

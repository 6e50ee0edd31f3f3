// SPDX-License-Identifier: Apache-2.0
// Columns: selects a comparison's numbers by name, and makes tables of them, for a page of documentation or a
// spreadsheet.
#pragma once

#include "sluice/core/expected.hpp"

#include "compare/comparison.hpp"
#include "compare/preset.hpp"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace compared {

/// One comparison that ran.
struct Ran {
  std::string label;
  Comparison comparison;
  sluice::ComparisonReport report;
  std::vector<std::pair<std::string, std::string>> at{}; ///< in a grid: the value on each axis
};

/// `--table md`, `latex` or `csv`: makes a table of the columns that `options` names, with one row per system (and per
/// case, with the column `case`). Rows with a deposit form a separate table. A grid also has `full`, for a terminal,
/// and its rows begin with their position on each axis. check_columns() validates the options before anything runs.
sluice::Status check_columns(const Options& options);
std::string column_table(const Options& options, std::span<const Ran> all);

/// Returns what `--columns help` prints: each column's name and head.
std::string columns_text();

/// The column of the largest possible found share. A run then keeps the keys of all its blocks, so the share is
/// computed only if the column is named.
inline constexpr std::string_view findable_column = "found-possible";

/// Returns a table of a preset's figures: the paper's value, ours, and the ratio. Empty if none of their rows ran.
std::string figures_table(std::span<const PaperFigure> figures, std::span<const Ran> all);

/// Checks that a preset's figures name existing columns, systems and cases: figures with a wrong name would silently be
/// omitted.
sluice::Status check_figures(const Preset& preset);

} // namespace compared

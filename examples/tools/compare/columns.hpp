// SPDX-License-Identifier: Apache-2.0
// Columns: a comparison's numbers by name, and tables of chosen ones, for a page of documentation or a spreadsheet.
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
  std::vector<std::pair<std::string, std::string>> at{}; ///< of a grid: each axis, and where on it
};

/// Cells under heads: aligned for a terminal (full), Markdown (md) or commas (csv).
std::string drawn_table(std::string_view style, const std::vector<std::string>& heads,
                        const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& left);

/// `--table md` or `csv`: the columns that `options` name, a row for each system (and case, with the column `case`),
/// those with a deposit in a table of their own. Of a grid also `full`, for a
/// terminal, and before the columns a row's place on each axis. Before anything ran: whether they can be printed.
sluice::Status check_columns(const Options& options);
std::string column_table(const Options& options, std::span<const Ran> all);

/// A preset's figures: the paper's, ours, and the ratio. Empty where what ran has none of them.
std::string figures_table(std::span<const PaperFigure> figures, std::span<const Ran> all);

/// Whether a preset's figures name columns, systems and cases that there are: a wrong name would only be left out.
sluice::Status check_figures(const Preset& preset);

} // namespace compared

// SPDX-License-Identifier: Apache-2.0
// Verdicts: compares each row of several comparisons with the best (or the baseline) of its own comparison, seed by
// seed.
#pragma once

#include "sluice/report/seeds.hpp"

#include "compare/columns.hpp"

#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace compared {

inline constexpr std::size_t judged_count = std::size(sluice::judged_figures);

struct Verdicts {
  /// For each figure of `judged_figures`: "+12.7 better", "-0.3 tie", with a star if a difference does not hold when
  /// all verdicts of the table are considered together (Holm), and "reference" for the row that others are compared
  /// with.
  std::map<const sluice::SystemReport*, std::array<std::string, judged_count>> of;
  std::size_t all = 0;   ///< number of judged pairs
  bool windows = false;  ///< the runs are windows of a trace
  std::string tie;       ///< what makes a verdict a tie
  std::string reference; ///< the system that all comparisons are judged against; empty: the best of each

  /// Returns the text of a row's figure; "-" for one that is not judged.
  [[nodiscard]] std::string text(const sluice::SystemReport& row, std::size_t figure) const;
  /// Explains the words in `table`, and the star if it occurs; empty if nothing is judged.
  [[nodiscard]] std::string note(const std::string& baseline, std::string_view table) const;
};

/// Returns all rows of the comparisons, and the rows of each SLO class; empty for one seed.
[[nodiscard]] Verdicts verdicts_of(std::span<const Ran> all, const std::string& baseline);

} // namespace compared

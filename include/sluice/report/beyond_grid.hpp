// SPDX-License-Identifier: Apache-2.0
// BeyondReport: how many of a row's iterations a measured profile extrapolates to.
#pragma once

#include "sluice/report/number_text.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace sluice {

/// Counts of the iterations, over all seeds, and the size that lies furthest beyond the measured points.
struct BeyondReport {
  std::int64_t iterations = 0;
  std::int64_t beyond = 0;
  std::string axis{}; ///< "batch"; empty: every iteration is within the grid
  double size = 0;
  double last = 0; ///< the largest measured on that axis

  [[nodiscard]] double share() const {
    return iterations > 0 ? static_cast<double>(beyond) / static_cast<double>(iterations) : 0.0;
  }
  /// "batch 2048, the grid ends at 256".
  [[nodiscard]] std::string largest() const {
    return axis + " " + tidy_text(size) + ", the grid ends at " + tidy_text(last);
  }
  void add(const BeyondReport& other) {
    iterations += other.iterations;
    beyond += other.beyond;
    if (!other.axis.empty() && (axis.empty() || other.size * last > size * other.last))
      axis = other.axis, size = other.size, last = other.last;
  }
};

/// "12 % of iterations extrapolate beyond the profile's grid (largest: batch 2048, the grid ends at 256)", of all rows
/// together; empty if none does. `rows`: pointers to SystemReports.
template <class Rows>
[[nodiscard]] std::string beyond_remark(const Rows& rows) {
  BeyondReport all;
  double most = 0;
  std::string whose;
  for (const auto* row : rows) {
    if (!row->beyond_grid) continue;
    all.add(*row->beyond_grid);
    if (row->beyond_grid->share() > most) most = row->beyond_grid->share(), whose = row->name;
  }
  if (all.beyond == 0) return {};
  return percent_text(all.share()) + " % of iterations extrapolate beyond the profile's grid" +
         (percent_text(most) != percent_text(all.share()) ? ", of " + whose + "'s " + percent_text(most) + " %" : "") +
         " (largest: " + all.largest() + ")";
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// spread: how far repeated timings of one thing lie apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace profiled {

/// Beyond this a machine was busy with something else.
inline constexpr double most_spread = 0.25;

/// The width of the values' middle half over their median: of what a figure is made of, so that a rare disturbance,
/// which the figure leaves out, does not count here either. 0 of fewer than two values.
inline double spread(std::vector<double> values) {
  if (values.size() < 2) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t cut = values.size() / 4;
  return (values[values.size() - 1 - cut] - values[cut]) / values[values.size() / 2];
}

} // namespace profiled

// SPDX-License-Identifier: Apache-2.0
// spread: how much repeated timings of the same work differ.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace profiled {

/// With a larger spread, the machine was busy with other work.
inline constexpr double most_spread = 0.25;

/// The width of the values' middle half, divided by their median. The figure is made of the same half, so rare
/// disturbances count in neither. 0 for fewer than two values.
inline double spread(std::vector<double> values) {
  if (values.size() < 2) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t cut = values.size() / 4;
  return (values[values.size() - 1 - cut] - values[cut]) / values[values.size() / 2];
}

} // namespace profiled

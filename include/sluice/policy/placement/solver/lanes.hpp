// SPDX-License-Identifier: Apache-2.0
// Reductions in four lanes: the compiler may not reorder them into vector instructions itself.
#pragma once

#include <algorithm>
#include <cstddef>

namespace sluice::detail {

/// Sum of a[i] * b[i]. Floating-point sums depend on order; four parallel sums are an order that vectorises and is the
/// same on every machine (-ffast-math was rejected: bounds are compared with costs).
inline double dot(const double* a, const double* b, std::size_t size) {
  double lane[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (std::size_t j = 0; j < 4; ++j) lane[j] += a[i + j] * b[i + j];
  for (; i < size; ++i) lane[0] += a[i] * b[i];
  return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/// The largest of `size` numbers, at least 0.
inline double largest(const double* a, std::size_t size) {
  double lane[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (std::size_t j = 0; j < 4; ++j) lane[j] = std::max(lane[j], a[i + j]);
  for (; i < size; ++i) lane[0] = std::max(lane[0], a[i]);
  return std::max(std::max(lane[0], lane[1]), std::max(lane[2], lane[3]));
}

} // namespace sluice::detail

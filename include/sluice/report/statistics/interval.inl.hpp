// SPDX-License-Identifier: Apache-2.0
// Interval: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/report/statistics/interval.hpp"

#include <cmath>
#include <numbers>

namespace sluice::detail {

SLUICE_INLINE double student_t_within(double t, std::int64_t freedom) {
  const double angle = std::atan(t / std::sqrt(static_cast<double>(freedom)));
  const double sine = std::sin(angle), cosine = std::cos(angle);
  const bool odd = freedom % 2 == 1;
  double sum = 0, term = odd ? cosine : 1;
  for (std::int64_t power = odd ? 1 : 0; power <= freedom - 2; power += 2) {
    sum += term;
    term *= cosine * cosine * static_cast<double>(power + 1) / static_cast<double>(power + 2);
  }
  return odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE double student_t_quantile(double confidence, std::int64_t freedom) {
  SLUICE_ASSERT(0 < confidence && confidence < 1 && freedom >= 1, "a confidence below 1, two values or more");
  double low = 0, high = 1;
  while (detail::student_t_within(high, freedom) < confidence) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (detail::student_t_within(middle, freedom) < confidence ? low : high) = middle;
  }
  return (low + high) / 2;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// student_t_quantile: the error of the mean of a few values, in standard errors.
#pragma once

#include "sluice/core/assert.hpp"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace sluice {

namespace detail {

/// Returns P(|T| <= t) of Student's t with an integer number of degrees of freedom, by the finite sums of Abramowitz
/// and Stegun, 26.7.3 and 26.7.4.
[[nodiscard]] inline double student_t_within(double t, std::int64_t freedom) {
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

} // namespace detail

/// Returns the t that |T| exceeds with probability 1 - `confidence`: 2.776 for 0.95 and four degrees of freedom.
///
/// Rejected: Boost.Math. Its quantile supports any real degrees of freedom, which needs an incomplete beta function,
/// and it would be the only library that the core headers need. The number of seeds is an integer, for which the
/// distribution is a finite sum.
[[nodiscard]] inline double student_t_quantile(double confidence, std::int64_t freedom) {
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

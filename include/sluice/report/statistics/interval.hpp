// SPDX-License-Identifier: Apache-2.0
// Interval: a mean with its confidence interval; mean_interval: the interval for one value per seed.
#pragma once

#include "sluice/core/compiled.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

// student_t_quantile: the error of the mean of a few values, in standard errors.

namespace detail {

/// Returns P(|T| <= t) of Student's t with an integer number of degrees of freedom, by the finite sums of Abramowitz
/// and Stegun, 26.7.3 and 26.7.4.
[[nodiscard]] double student_t_within(double t, std::int64_t freedom);

} // namespace detail

/// Returns the t that |T| exceeds with probability 1 - `confidence`: 2.776 for 0.95 and four degrees of freedom.
///
/// Rejected: Boost.Math. Its quantile supports any real degrees of freedom, which needs an incomplete beta function,
/// and it would be the only library that the core headers need. The number of seeds is an integer, for which the
/// distribution is a finite sum.
[[nodiscard]] double student_t_quantile(double confidence, std::int64_t freedom);

/// The confidence: how often an interval contains the true mean.
inline constexpr double usual_confidence = 0.95;

/// The mean of some values, and the limits that contain the true mean with a given confidence. Without values, all are
/// NaN. With one value, the mean is that value and the limits are NaN, since one seed does not predict another.
struct Interval {
  static constexpr double absent = std::numeric_limits<double>::quiet_NaN();
  double mean = absent, least = absent, most = absent;
  std::size_t count = 0; ///< values

  /// Returns whether there are limits.
  [[nodiscard]] bool known() const { return !std::isnan(least) && !std::isnan(most); }
  [[nodiscard]] bool contains(double value) const { return least <= value && value <= most; }
  /// Returns half of the distance between the limits; NaN without limits.
  [[nodiscard]] double half_width() const { return (most - least) / 2; }

  friend bool operator==(const Interval&, const Interval&) = default;
};

namespace detail {

/// Computes the mean and its standard error, which is NaN for fewer than two values.
struct MeanError {
  double mean = Interval::absent, error = Interval::absent;
};

/// `at(i)` is the i-th of `count` values. Uses two passes: a single pass would lose small differences to rounding.
template <class At>
[[nodiscard]] MeanError mean_error(std::size_t count, At&& at) {
  if (count == 0) return {};
  const auto n = static_cast<double>(count);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < count; ++i) sum += at(i);
  const double mean = sum / n;
  if (count < 2) return {mean, Interval::absent};
  for (std::size_t i = 0; i < count; ++i) squares += (at(i) - mean) * (at(i) - mean);
  return {mean, std::sqrt(squares / (n - 1) / n)};
}

} // namespace detail

/// Returns the mean of `values`, one per seed, with its interval by Student's t. NaN values (a figure that a run lacks)
/// are left out and not counted.
///
/// Why Student's t: seeds are drawn independently, there are few of them, and a figure of a run is itself a mean over
/// hundreds of requests, and therefore nearly normal. For five normal values t covers the true mean in 95 % of cases;
/// 1.96 standard errors cover it in 88 %, and a percentile bootstrap in 84 %. For figures with a long tail on one side
/// (a longest gap) t covers less: 88 % for five exponential values, 89 % for eight
/// (tests/report/statistics/coverage_test.cpp).
[[nodiscard]] inline Interval mean_interval(std::span<const double> values, double confidence = usual_confidence) {
  std::size_t count = 0;
  for (const double value : values) count += std::isnan(value) ? std::size_t{0} : 1;
  if (count < values.size()) {
    std::vector<double> there;
    for (const double value : values)
      if (!std::isnan(value)) there.push_back(value);
    return mean_interval(there, confidence);
  }
  const detail::MeanError of = detail::mean_error(count, [&](std::size_t i) { return values[i]; });
  if (count < 2) return {of.mean, Interval::absent, Interval::absent, count};
  const double half = student_t_quantile(confidence, static_cast<std::int64_t>(count) - 1) * of.error;
  return {of.mean, of.mean - half, of.mean + half, count};
}

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/statistics/interval.inl.hpp"
#endif

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

/// Returns the mean of the values that exist; NaN if none does.
[[nodiscard]] inline double mean_of(std::span<const double> values) {
  double sum = 0, count = 0;
  for (const double value : values)
    if (!std::isnan(value)) sum += value, ++count;
  return count > 0 ? sum / count : Interval::absent;
}

/// Returns the mean of `values`, none of which is NaN, with its interval by Student's t. For differences of few pairs,
/// and for values on a lattice, of which many may be equal.
[[nodiscard]] inline Interval t_interval(std::span<const double> values, double confidence = usual_confidence) {
  const detail::MeanError of = detail::mean_error(values.size(), [&](std::size_t i) { return values[i]; });
  if (values.size() < 2) return {of.mean, Interval::absent, Interval::absent, values.size()};
  const double half = student_t_quantile(confidence, static_cast<std::int64_t>(values.size()) - 1) * of.error;
  return {of.mean, of.mean - half, of.mean + half, values.size()};
}

/// Returns the mean of `values`, one per seed, with its interval. NaN values (a figure that a run lacks) are left out
/// and not counted.
///
/// The interval is Student's t; of eight values or more, the smallest interval that contains t's and the studentized
/// bootstrap's (statistics/paired.hpp). Seeds are drawn independently and there are few of them. Over 200 times eight
/// demos (bench/bench_coverage.cpp) t alone covers the true mean of a skewed time, such as E2E, in 87 to 90 %, the
/// bootstrap alone that of goodput in 89 %, and both together every attainment, rate, mean and P99 of TTFT and E2E in
/// 92 to 98 %. Rejected: 1.96 standard errors (88 % of five normal values), a percentile bootstrap (84 %), Johnson's t
/// and t of logarithms (83 to 92 % of those times).
///
/// If half of the values or more are one and the same, there is no interval: what differs is then too rare for so few
/// seeds (a refusal in one seed of thirty), and intervals would contain the true mean in 22 %.
[[nodiscard]] Interval mean_interval(std::span<const double> values, double confidence = usual_confidence);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/statistics/interval.inl.hpp"
#include "sluice/report/statistics/paired.hpp" // defines mean_interval, which takes the bootstrap from there
#endif

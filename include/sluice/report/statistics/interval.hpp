// SPDX-License-Identifier: Apache-2.0
// Interval: a mean and how well it is known; mean_interval: that of values from as many seeds.
#pragma once

#include "sluice/report/statistics/student_t.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// How often an interval holds the mean that it is about.
inline constexpr double usual_confidence = 0.95;

/// The mean of some values with the limits between which the mean of all values that there could be lies, with a stated
/// confidence. Of no value all is NaN; of one value the mean is that value and the limits are NaN: one seed says
/// nothing of another.
struct Interval {
  static constexpr double absent = std::numeric_limits<double>::quiet_NaN();
  double mean = absent, least = absent, most = absent;
  std::size_t count = 0; ///< values

  /// Whether there are limits at all.
  [[nodiscard]] bool known() const { return !std::isnan(least) && !std::isnan(most); }
  [[nodiscard]] bool contains(double value) const { return least <= value && value <= most; }
  /// Half of what lies between the limits. NaN where there are none.
  [[nodiscard]] double half_width() const { return (most - least) / 2; }

  friend bool operator==(const Interval&, const Interval&) = default;
};

namespace detail {

/// Mean, and standard error of the mean: NaN below two values.
struct MeanError {
  double mean = Interval::absent, error = Interval::absent;
};

/// `at(i)` is the i-th of `count` values. In two passes: one pass would lose what differs in the last digits.
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

/// The mean of `values`, one a seed, with its interval by Student's t. Values that are NaN (a figure that a run does
/// not have) are left out and not counted.
///
/// Why t: seeds are drawn independently, there are few of them, and a figure of a run is itself a mean over hundreds of
/// requests, so near to normal; for five normal values t covers in 95 % of cases, where 1.96 standard errors cover in
/// 88 and a percentile bootstrap in 84. For figures with a long tail on one side (a longest gap) t covers less: of five
/// exponential values in 88 %, of eight in 89 (tests/report/statistics/coverage_test.cpp).
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

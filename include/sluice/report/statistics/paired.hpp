// SPDX-License-Identifier: Apache-2.0
// paired: compares two systems seed by seed.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/report/statistics/interval.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Options for resampling pairs. All comparisons have the same default seed, so equal pairs give equal intervals.
struct BootstrapOptions {
  std::size_t resamples = 10'000;
  double confidence = usual_confidence;
  std::uint64_t seed = 1;
};

/// One figure of two systems over the same seeds.
struct Paired {
  Interval difference;    ///< of the first minus the second
  std::size_t wins = 0;   ///< pairs in which the first has more
  std::size_t losses = 0; ///< in which it has less

  [[nodiscard]] std::size_t pairs() const { return difference.count; }
  /// Whether these pairs can distinguish the two; one pair cannot.
  [[nodiscard]] bool judged() const { return difference.known(); }
  /// Whether the pairs do not show which of the two has more.
  [[nodiscard]] bool tie() const { return judged() && difference.contains(0); }
};

namespace detail {

/// Below this number of values, the quantiles depend on only a few hundred different resamples (126 for five values),
/// and intervals are 50 % wider than necessary.
inline constexpr std::size_t least_bootstrapped = 8;

/// The studentized bootstrap of the mean of `values`.
[[nodiscard]] inline Interval bootstrap_t(std::span<const double> values, const BootstrapOptions& options) {
  const std::size_t n = values.size();
  const MeanError of = mean_error(n, [&](std::size_t i) { return values[i]; });
  // A resample of one value drawn n times has no spread, except for rounding, which is ignored.
  const double none = 1e-9 * (of.error + std::abs(of.mean));
  if (!(of.error > none)) return {of.mean, of.mean, of.mean, n};
  Random random{options.seed};
  std::vector<std::uint32_t> drawn(n);
  std::vector<double> all;
  all.reserve(options.resamples);
  while (all.size() < options.resamples) {
    for (std::uint32_t& index : drawn) index = static_cast<std::uint32_t>(((random() >> 32) * n) >> 32);
    const MeanError again = mean_error(n, [&](std::size_t i) { return values[drawn[i]]; });
    if (again.error > none) all.push_back((again.mean - of.mean) / again.error);
  }
  const auto quantile = [&all](double p) {
    const auto at = static_cast<std::ptrdiff_t>(std::floor(p * static_cast<double>(all.size() - 1) + 0.5));
    std::nth_element(all.begin(), all.begin() + at, all.end());
    return all[static_cast<std::size_t>(at)];
  };
  const double tail = (1 - options.confidence) / 2;
  return {of.mean, of.mean - quantile(1 - tail) * of.error, of.mean - quantile(tail) * of.error, n};
}

} // namespace detail

/// `a` minus `b`, value by value; both have the same seeds in the same order. A workload's effects on both (a burst, a
/// long prompt) cancel in the difference, so a few pairs show more than many separate runs. A pair with a NaN is left
/// out.
///
/// The interval is the studentized bootstrap's: differences are resampled with replacement, each time with that
/// resample's standard error, and the quantiles of their t bound the mean's error. With fewer than eight pairs it is
/// Student's t, which needs nearly normal differences. Rejected because of their coverage for 95 % intervals of 5 to 20
/// pairs from several distributions (tests/report/statistics/coverage_test.cpp has the chosen method's): the percentile
/// bootstrap (84 to 93 %); BCa, which corrects skewness but not the low variance of few values; Student's t throughout,
/// which covers less for skewed differences.
[[nodiscard]] inline Paired paired(std::span<const double> a, std::span<const double> b,
                                   const BootstrapOptions& options = {}) {
  SLUICE_ASSERT(a.size() == b.size(), "a value of each for every seed");
  Paired result;
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) continue;
    differences.push_back(a[i] - b[i]);
    result.wins += a[i] > b[i] ? std::size_t{1} : 0;
    result.losses += a[i] < b[i] ? std::size_t{1} : 0;
  }
  result.difference = differences.size() < detail::least_bootstrapped ? mean_interval(differences, options.confidence)
                                                                      : detail::bootstrap_t(differences, options);
  return result;
}

} // namespace sluice

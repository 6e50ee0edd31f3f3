// SPDX-License-Identifier: Apache-2.0
// paired: whether one of two is better, judged seed by seed.
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

/// How pairs are drawn again. The default seed is one for all comparisons: equal pairs give equal intervals.
struct BootstrapOptions {
  std::size_t resamples = 10'000;
  double confidence = usual_confidence;
  std::uint64_t seed = 1;
};

/// One figure of two systems over the same seeds.
struct Paired {
  Interval difference;    ///< of the first less the second
  std::size_t wins = 0;   ///< pairs in which the first has more
  std::size_t losses = 0; ///< in which it has less

  [[nodiscard]] std::size_t pairs() const { return difference.count; }
  /// Whether these pairs can tell the two apart at all: one pair cannot.
  [[nodiscard]] bool judged() const { return difference.known(); }
  /// The pairs do not tell which of the two has more.
  [[nodiscard]] bool tie() const { return judged() && difference.contains(0); }
};

namespace detail {

/// Below so many values the quantiles of a few hundred different resamples (126 of five) decide, and intervals are half
/// as wide again as they need be.
inline constexpr std::size_t least_bootstrapped = 8;

/// The studentized bootstrap of the mean of `values`.
[[nodiscard]] inline Interval bootstrap_t(std::span<const double> values, const BootstrapOptions& options) {
  const std::size_t n = values.size();
  const MeanError of = mean_error(n, [&](std::size_t i) { return values[i]; });
  // A resample of one value drawn n times has no spread; what rounding makes of it is none either.
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

/// `a` less `b`, value by value: both of the same seeds in the same order. What a workload does to both (a burst, a
/// long prompt) is in no difference, so that a few pairs tell what many separate runs would not. A pair in which either
/// is NaN is left out.
///
/// The interval is the studentized bootstrap's: differences are drawn again with replacement, each time with the
/// standard error of that draw, and the quantiles of their t say how far the mean may be off. Of fewer than eight pairs
/// it is Student's t, which needs them to be near to normal. Rejected, by how often 95 % intervals of 5 to 20 pairs of
/// several distributions cover (tests/report/statistics/coverage_test.cpp has what is chosen): the percentile bootstrap
/// (84 to 93
/// %); BCa, which corrects skewness, but not that few values vary too little; Student's t throughout, which covers less
/// where differences are skew.
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

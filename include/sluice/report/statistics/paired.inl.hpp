// SPDX-License-Identifier: Apache-2.0
// paired: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/report/statistics/paired.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace sluice::detail {

SLUICE_INLINE std::size_t resamples_of(std::size_t n, std::size_t most) {
  double count = 1;
  for (std::size_t i = 1; i <= n; ++i) count = count * static_cast<double>(n - 1 + i) / static_cast<double>(i);
  return n == 0 || count >= static_cast<double>(most) ? most : static_cast<std::size_t>(std::llround(count));
}

/// Values with weights, as a distribution.
class WeightedValues {
 public:
  void add(double value, double weight) { all_.emplace_back(value, weight); }
  /// Call it once, after the last `add`.
  void sort() {
    std::sort(all_.begin(), all_.end());
    for (auto& [value, weight] : all_) weight = total_ += weight;
  }
  /// Returns the smallest value for which at least a share `p` of the weight is at or below it.
  [[nodiscard]] double quantile(double p) const {
    const auto reaches = [&](const auto& one) { return one.second >= p * total_; };
    const auto found = std::find_if(all_.begin(), all_.end(), reaches);
    return found == all_.end() ? all_.back().first : found->first;
  }
  /// Returns the shares of the weight below `value`, and at or below it.
  [[nodiscard]] double below(double value) const {
    return share(std::partition_point(all_.begin(), all_.end(), [&](const auto& one) { return one.first < value; }));
  }
  [[nodiscard]] double up_to(double value) const {
    return share(std::partition_point(all_.begin(), all_.end(), [&](const auto& one) { return one.first <= value; }));
  }

 private:
  using Iterator = std::vector<std::pair<double, double>>::const_iterator;
  [[nodiscard]] double share(Iterator end) const { return end == all_.begin() ? 0 : std::prev(end)->second / total_; }
  std::vector<std::pair<double, double>> all_; ///< value and weight; once sorted, the weight up to and including the
                                               ///< value
  double total_ = 0;
};

SLUICE_INLINE Bootstrapped bootstrap_t(std::span<const double> values, const BootstrapOptions& options) {
  const std::size_t n = values.size();
  const MeanError of = mean_error(n, [&](std::size_t i) { return values[i]; });
  // A resample of one value drawn n times has no spread except for rounding, so it is ignored.
  const double none = 1e-9 * (of.error + std::abs(of.mean));
  if (!(of.error > none)) return {{of.mean, of.mean, of.mean, n}, of.mean == 0 ? 1.0 : 0.0};
  WeightedValues errors; // of resampled means, in their standard errors
  const auto add = [&](const MeanError& again, double weight) {
    if (again.error > none) errors.add((again.mean - of.mean) / again.error, weight);
    return again.error > none;
  };
  std::vector<double> resample(n);
  const auto at = [&](std::size_t i) { return resample[i]; };
  if (resamples_of(n, options.resamples + 1) <= options.resamples) {
    each_resample(n, [&](const std::vector<std::uint32_t>& counts, double weight) {
      std::size_t i = 0;
      for (std::size_t value = 0; value < n; ++value)
        for (std::uint32_t k = 0; k < counts[value]; ++k) resample[i++] = values[value];
      add(mean_error(n, at), weight);
    });
  } else {
    Random random{options.seed};
    for (std::size_t drawn = 0; drawn < options.resamples;) {
      for (double& value : resample) value = values[((random() >> 32) * n) >> 32];
      if (add(mean_error(n, at), 1)) ++drawn;
    }
  }
  errors.sort();
  const double tail = (1 - options.confidence) / 2, zero = of.mean / of.error;
  const Interval interval{of.mean, of.mean - errors.quantile(1 - tail) * of.error,
                          of.mean - errors.quantile(tail) * of.error, n};
  return {interval, std::min(1.0, 2 * std::min(errors.up_to(zero), 1 - errors.below(zero)))};
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE Interval mean_interval(std::span<const double> values, double confidence) {
  std::vector<double> sorted;
  for (const double value : values)
    if (!std::isnan(value)) sorted.push_back(value);
  const std::size_t count = sorted.size();
  if (count < values.size()) return mean_interval(sorted, confidence);
  Interval interval = t_interval(values, confidence);
  if (count < 2) return interval;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0, same = 0; i < count; i = same) {
    same = i;
    while (same < count && sorted[same] == sorted[i]) ++same;
    if (2 * (same - i) >= count && same - i > 1) return {interval.mean, Interval::absent, Interval::absent, count};
  }
  if (count < detail::least_bootstrapped) return interval;
  constexpr std::size_t resamples = 1'000; // a table has hundreds of intervals; more change an end by a few per cent
  const Interval skewed = detail::bootstrap_t(values, {.resamples = resamples, .confidence = confidence}).interval;
  interval.least = std::min(interval.least, skewed.least);
  interval.most = std::max(interval.most, skewed.most);
  return interval;
}

SLUICE_INLINE Paired paired(std::span<const double> a, std::span<const double> b, const BootstrapOptions& options) {
  SLUICE_ASSERT(a.size() == b.size(), "a value of each for every seed");
  Paired result;
  std::vector<double> differences;
  double scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) continue;
    const double most = std::max(std::abs(a[i]), std::abs(b[i]));
    const bool same = a[i] == b[i] || (std::isfinite(most) && std::abs(a[i] - b[i]) <= detail::rounding * most);
    differences.push_back(same ? 0 : a[i] - b[i]);
    if (std::isfinite(most)) scale = std::max(scale, most);
    result.wins += !same && a[i] > b[i] ? std::size_t{1} : 0;
    result.losses += !same && a[i] < b[i] ? std::size_t{1} : 0;
  }
  // Differences that cancel leave rounding in their mean: neither is larger.
  const auto exact = [&](double mean) { return std::abs(mean) <= detail::rounding * scale ? 0 : mean; };
  if (differences.size() >= detail::least_bootstrapped) {
    const detail::Bootstrapped of = detail::bootstrap_t(differences, options);
    result.difference = of.interval;
    result.p = of.p;
    result.difference.mean = exact(result.difference.mean);
    return result;
  }
  result.difference = t_interval(differences, options.confidence);
  result.difference.mean = exact(result.difference.mean);
  const std::size_t n = differences.size();
  const detail::MeanError of = detail::mean_error(n, [&](std::size_t i) { return differences[i]; });
  if (n >= 2 && of.error > 0)
    result.p = 1 - detail::student_t_within(std::abs(of.mean) / of.error, static_cast<std::int64_t>(n) - 1);
  else if (n >= 2)
    result.p = of.mean == 0 ? 1 : 0;
  return result;
}

SLUICE_INLINE double sign_test(std::size_t few, std::size_t count) {
  // 2^-count underflows from 1,075 pairs on. So terms are relative to the largest one, whose logarithm is added last.
  double largest = -static_cast<double>(count) * std::log(2.0), sum = 0, term = 1;
  for (std::size_t i = few; i > 0; --i) {
    const double ratio = static_cast<double>(i) / static_cast<double>(count - i + 1);
    sum += term;
    term *= ratio;
    largest -= std::log(ratio);
  }
  return std::min(1.0, 2 * std::exp(largest) * (sum + term));
}

SLUICE_INLINE Paired by_signs(Paired of) {
  of.difference.least = of.difference.most = Interval::absent;
  const double mean = of.wins > of.losses ? of.difference.mean : -of.difference.mean;
  const bool disagree = of.wins != of.losses && !(mean > 0);
  of.p = of.pairs() < 2 ? Interval::absent
         : disagree     ? 1
                        : sign_test(std::min(of.wins, of.losses), of.wins + of.losses);
  return of;
}

SLUICE_INLINE std::vector<bool> hold_together(std::span<const double> p, double confidence) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (!std::isnan(p[i])) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<bool> held(p.size(), false);
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    if (p[order[rank]] > (1 - confidence) / static_cast<double>(order.size() - rank)) break;
    held[order[rank]] = true;
  }
  return held;
}

} // namespace sluice

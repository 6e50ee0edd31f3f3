// SPDX-License-Identifier: Apache-2.0
// paired: compares two systems seed by seed.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/report/statistics/interval.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// Options for resampling pairs. If fewer different resamples exist than `resamples`, all of them are enumerated with
/// their probabilities instead of drawn: eight values have 6,435. All comparisons have the same default seed, so equal
/// pairs give equal intervals.
struct BootstrapOptions {
  std::size_t resamples = 10'000;
  double confidence = usual_confidence;
  std::uint64_t seed = 1;
};

/// One figure of two systems over the same seeds.
struct Paired {
  Interval difference;    ///< of the first minus the second
  std::size_t wins = 0;   ///< pairs in which the first is larger
  std::size_t losses = 0; ///< pairs in which the first is smaller
  /// The probability that the difference is at least this far from 0 if the true difference is 0; 0 is in the interval
  /// with confidence 1 - p. NaN if the pairs cannot decide.
  double p = Interval::absent;

  [[nodiscard]] std::size_t pairs() const { return difference.count; }
  /// Returns whether these pairs can distinguish the two; one pair cannot.
  [[nodiscard]] bool judged() const { return difference.known(); }
  /// Returns whether the pairs leave open which of the two is larger.
  [[nodiscard]] bool tie() const { return judged() && difference.contains(0); }
};

namespace detail {

/// Below this number of values, the quantiles depend on only a few hundred different resamples (126 for five values),
/// and intervals are 50 % wider than necessary.
inline constexpr std::size_t least_bootstrapped = 8;

/// Returns the number of different resamples of `n` values, (2n - 1)! / n! / (n - 1)!; `most` if there are more.
[[nodiscard]] inline std::size_t resamples_of(std::size_t n, std::size_t most) {
  double count = 1;
  for (std::size_t i = 1; i <= n; ++i) count = count * static_cast<double>(n - 1 + i) / static_cast<double>(i);
  return n == 0 || count >= static_cast<double>(most) ? most : static_cast<std::size_t>(std::llround(count));
}

/// Calls `visit(counts, weight)` for every resample. `counts`: how often each of `n` values is in the resample.
/// `weight`: in how many of n^n draws it occurs, relative to n!.
template <class Visit>
void each_resample(std::size_t n, Visit&& visit) {
  std::vector<std::uint32_t> counts(n, 0);
  const auto place = [&](auto&& self, std::size_t at, std::size_t left, double weight) -> void {
    if (at + 1 == n) {
      counts[at] = static_cast<std::uint32_t>(left);
      for (std::size_t k = 2; k <= left; ++k) weight /= static_cast<double>(k);
      visit(counts, weight);
      return;
    }
    for (std::size_t k = 0; k <= left; ++k) {
      if (k > 1) weight /= static_cast<double>(k);
      counts[at] = static_cast<std::uint32_t>(k);
      self(self, at + 1, left - k, weight);
    }
  };
  place(place, 0, n, 1);
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

/// An interval, and the probability of the mean if the true mean is 0.
struct Bootstrapped {
  Interval interval;
  double p = Interval::absent;
};

/// Returns the studentized bootstrap of the mean of `values`.
[[nodiscard]] inline Bootstrapped bootstrap_t(std::span<const double> values, const BootstrapOptions& options) {
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

} // namespace detail

/// `a` minus `b`, value by value; both have the same seeds in the same order. A workload's effects on both (a burst, a
/// long prompt) cancel in the difference, so a few pairs reveal more than many separate runs. A pair with a NaN is left
/// out.
///
/// The interval is a studentized bootstrap: differences are resampled with replacement, each time with that resample's
/// standard error, and the quantiles of their t limit the mean's error. With fewer than eight pairs the interval is
/// Student's t, which needs nearly normal differences. Rejected because of their coverage for 95 % intervals of 5 to 20
/// pairs from several distributions (tests/report/statistics/coverage_test.cpp checks the chosen method): the
/// percentile bootstrap (84 to 93 %); BCa, which corrects skewness but not the low variance of few values; Student's t
/// throughout, which covers less for skewed differences.
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
  if (differences.size() >= detail::least_bootstrapped) {
    const detail::Bootstrapped of = detail::bootstrap_t(differences, options);
    result.difference = of.interval;
    result.p = of.p;
    return result;
  }
  result.difference = mean_interval(differences, options.confidence);
  const std::size_t n = differences.size();
  const detail::MeanError of = detail::mean_error(n, [&](std::size_t i) { return differences[i]; });
  if (n >= 2 && of.error > 0)
    result.p = 1 - detail::student_t_within(std::abs(of.mean) / of.error, static_cast<std::int64_t>(n) - 1);
  else if (n >= 2)
    result.p = of.mean == 0 ? 1 : 0;
  return result;
}

/// Holm's correction for several comparisons: returns which of them may be called differences, so that all of these are
/// real together with probability `confidence`. A NaN is no comparison. Holm 1979, "A simple sequentially rejective
/// multiple test procedure". Rejected: Bonferroni, which finds fewer differences at the same confidence; the false
/// discovery rate, which guarantees less.
[[nodiscard]] inline std::vector<bool> hold_together(std::span<const double> p, double confidence = usual_confidence) {
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

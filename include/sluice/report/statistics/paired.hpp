// SPDX-License-Identifier: Apache-2.0
// paired: compares two systems seed by seed.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/statistics/interval.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
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
  /// with confidence 1 - p. Without an interval, the sign test's. NaN if the pairs cannot decide.
  double p = Interval::absent;

  [[nodiscard]] std::size_t pairs() const { return difference.count; }
  /// Returns whether these pairs can distinguish the two; one pair cannot.
  [[nodiscard]] bool judged() const { return !std::isnan(p); }
  /// Returns whether the pairs leave open which of the two is larger.
  [[nodiscard]] bool tie() const {
    return judged() && (difference.known() ? difference.contains(0) : p > 1 - usual_confidence);
  }
  /// Returns whether the first is larger, where that is no tie.
  [[nodiscard]] bool first_is_larger() const { return difference.mean > 0; }
};

/// Returns the probability that `count` fair coins fall at least as unevenly as `few` against the remaining ones, in
/// either direction: the two-sided sign test.
[[nodiscard]] double sign_test(std::size_t few, std::size_t count);

namespace detail {

/// Below this number of values, the quantiles depend on only a few hundred different resamples (126 for five values),
/// and intervals are 50 % wider than necessary.
inline constexpr std::size_t least_bootstrapped = 8;

/// Two systems that do the same may add the same times in another order. Values that differ by less than this share are
/// equal: no comparison is decided by rounding.
inline constexpr double rounding = 1e-9;

/// Returns the number of different resamples of `n` values, (2n - 1)! / n! / (n - 1)!; `most` if there are more.
[[nodiscard]] std::size_t resamples_of(std::size_t n, std::size_t most);

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

/// An interval, and the probability of the mean if the true mean is 0.
struct Bootstrapped {
  Interval interval;
  double p = Interval::absent;
};

/// Returns the studentized bootstrap of the mean of `values`.
[[nodiscard]] Bootstrapped bootstrap_t(std::span<const double> values, const BootstrapOptions& options);

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
[[nodiscard]] Paired paired(std::span<const double> a, std::span<const double> b, const BootstrapOptions& options = {});

/// Returns the verdict of the signs alone: no interval, and the sign test's probability. For differences of which few
/// are large and most hardly any, such as those of a trace's windows: what decides their mean is then too rare for an
/// interval, and what the signs say holds whatever the distribution: in more of all windows the first is larger, or
/// smaller. If the mean is 0 or has the other sign, the pairs leave it open. Six pairs or more can decide.
[[nodiscard]] Paired by_signs(Paired of);

/// Holm's correction for several comparisons: returns which of them may be called differences, so that all of these are
/// real together with probability `confidence`. A NaN is no comparison. Holm 1979, "A simple sequentially rejective
/// multiple test procedure". Rejected: Bonferroni, which finds fewer differences at the same confidence; the false
/// discovery rate, which guarantees less.
[[nodiscard]] std::vector<bool> hold_together(std::span<const double> p, double confidence = usual_confidence);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/statistics/paired.inl.hpp"
#endif

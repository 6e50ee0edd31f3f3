// SPDX-License-Identifier: Apache-2.0
// Quantiles: exact, by nearest rank, of samples that each represent one or many equal values.
#pragma once

#include "sluice/core/compiled.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace sluice {

/// `count` equal values: n requests that waited for the same iteration form one sample.
struct WeightedSample {
  double value = 0;
  std::int64_t count = 1;

  friend constexpr bool operator==(const WeightedSample&, const WeightedSample&) = default;
};

/// The share `fraction` of all values is at most `value`.
struct CdfPoint {
  double value = 0;
  double fraction = 0;

  friend constexpr bool operator==(const CdfPoint&, const CdfPoint&) = default;
};

/// Returns the rank of the p-quantile among n values by nearest rank: ceil(p * n), at least 1, counted from 1.
///
/// 0.07 * 100 is 7.000000000000001 in double, so a product within four rounding errors of a whole number counts as that
/// number.
[[nodiscard]] std::int64_t nearest_rank(double p, std::int64_t n);

/// A sorted bag of values. Every quantile is one of the values, never interpolated.
///
/// Rejected: a sketch (t-digest, HDR). The metrics are defined as exact quantiles, and the samples are already grouped.
class Distribution {
 public:
  Distribution() = default;
  /// Takes samples in any order; samples with count 0 are left out. O(n log n).
  explicit Distribution(std::vector<WeightedSample> samples);

  [[nodiscard]] bool empty() const { return total_ == 0; }
  [[nodiscard]] std::int64_t count() const { return total_; }
  /// Returns NaN without values: absent, which reports write as null.
  [[nodiscard]] double mean() const { return empty() ? absent() : sum_ / static_cast<double>(total_); }
  [[nodiscard]] double max() const { return empty() ? absent() : sorted_.back().value; }
  [[nodiscard]] double min() const { return empty() ? absent() : sorted_.front().value; }

  /// Returns the smallest value that is not exceeded by at least a share `p` of all values. NaN without values.
  [[nodiscard]] double quantile(double p) const { return empty() ? absent() : at_rank(nearest_rank(p, total_)); }

  /// Returns at most about `points` points of the distribution function, each exact. Steps of the fraction are equal,
  /// and smaller in the tail (99 % and above), so that a plot resolves the values that matter for an SLO.
  [[nodiscard]] std::vector<CdfPoint> cdf(int points) const;

  /// Returns the share of all values that are at most `value`.
  [[nodiscard]] double share_up_to(double value) const;

 private:
  static constexpr double absent() { return std::numeric_limits<double>::quiet_NaN(); }
  [[nodiscard]] double at_rank(std::int64_t rank) const;

  std::vector<WeightedSample> sorted_; ///< by value, distinct; `count` is cumulative
  std::int64_t total_ = 0;
  double sum_ = 0;
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/quantile.inl.hpp"
#endif

// SPDX-License-Identifier: Apache-2.0
// Quantiles: exact, by nearest rank, of samples that each represent one or many equal values.
#pragma once

#include "sluice/core/assert.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
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
[[nodiscard]] inline std::int64_t nearest_rank(double p, std::int64_t n) {
  SLUICE_ASSERT(0 <= p && p <= 1, "a quantile between 0 and 1");
  const double exact = p * static_cast<double>(n);
  const double whole = std::round(exact);
  const bool is_whole = std::abs(exact - whole) <= 4 * std::numeric_limits<double>::epsilon() * exact;
  return std::clamp(static_cast<std::int64_t>(is_whole ? whole : std::ceil(exact)), std::int64_t{1},
                    std::max(std::int64_t{1}, n));
}

/// A sorted bag of values. Every quantile is one of the values, never interpolated.
///
/// Rejected: a sketch (t-digest, HDR). The metrics are defined as exact quantiles, and the samples are already grouped.
class Distribution {
 public:
  Distribution() = default;
  /// Takes samples in any order; samples with count 0 are left out. O(n log n).
  explicit Distribution(std::vector<WeightedSample> samples) : sorted_(std::move(samples)) {
    std::sort(sorted_.begin(), sorted_.end(),
              [](const WeightedSample& a, const WeightedSample& b) { return a.value < b.value; });
    std::size_t kept = 0;
    for (const WeightedSample& sample : sorted_) {
      SLUICE_ASSERT(sample.count >= 0 && !std::isnan(sample.value), "a count of values that can be ordered");
      if (sample.count == 0) continue;
      total_ += sample.count;
      sum_ += sample.value * static_cast<double>(sample.count);
      if (kept > 0 && sorted_[kept - 1].value == sample.value)
        sorted_[kept - 1].count = total_;
      else
        sorted_[kept++] = {sample.value, total_};
    }
    sorted_.resize(kept);
  }

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
  [[nodiscard]] std::vector<CdfPoint> cdf(int points) const {
    std::vector<CdfPoint> curve;
    if (empty()) return curve;
    const auto add = [&](double p) {
      const double value = quantile(p);
      const double fraction = share_up_to(value);
      if (curve.empty() || curve.back().value < value) curve.push_back({value, fraction});
    };
    const int body = std::max(2, points - 16);
    for (int i = 0; i < body; ++i) add(0.99 * static_cast<double>(i) / static_cast<double>(body));
    for (int i = 0; i < 16; ++i) add(1 - 0.01 * std::pow(0.5, static_cast<double>(i) / 2));
    add(1.0);
    return curve;
  }

  /// Returns the share of all values that are at most `value`.
  [[nodiscard]] double share_up_to(double value) const {
    const auto after = std::upper_bound(sorted_.begin(), sorted_.end(), value,
                                        [](double v, const WeightedSample& sample) { return v < sample.value; });
    if (after == sorted_.begin()) return 0;
    return static_cast<double>(std::prev(after)->count) / static_cast<double>(total_);
  }

 private:
  static constexpr double absent() { return std::numeric_limits<double>::quiet_NaN(); }
  [[nodiscard]] double at_rank(std::int64_t rank) const {
    return std::lower_bound(sorted_.begin(), sorted_.end(), rank,
                            [](const WeightedSample& sample, std::int64_t r) { return sample.count < r; })
        ->value;
  }

  std::vector<WeightedSample> sorted_; ///< by value, distinct; `count` is cumulative
  std::int64_t total_ = 0;
  double sum_ = 0;
};

} // namespace sluice

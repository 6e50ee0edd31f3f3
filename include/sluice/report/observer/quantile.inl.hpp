// SPDX-License-Identifier: Apache-2.0
// Quantiles: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/report/observer/quantile.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace sluice {

SLUICE_INLINE std::int64_t nearest_rank(double p, std::int64_t n) {
  SLUICE_ASSERT(0 <= p && p <= 1, "a quantile between 0 and 1");
  const double exact = p * static_cast<double>(n);
  const double whole = std::round(exact);
  const bool is_whole = std::abs(exact - whole) <= 4 * std::numeric_limits<double>::epsilon() * exact;
  return std::clamp(static_cast<std::int64_t>(is_whole ? whole : std::ceil(exact)), std::int64_t{1},
                    std::max(std::int64_t{1}, n));
}

SLUICE_INLINE Distribution::Distribution(std::vector<WeightedSample> samples) : sorted_(std::move(samples)) {
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

SLUICE_INLINE std::vector<CdfPoint> Distribution::cdf(int points) const {
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

SLUICE_INLINE double Distribution::share_up_to(double value) const {
  const auto after = std::upper_bound(sorted_.begin(), sorted_.end(), value,
                                      [](double v, const WeightedSample& sample) { return v < sample.value; });
  if (after == sorted_.begin()) return 0;
  return static_cast<double>(std::prev(after)->count) / static_cast<double>(total_);
}

SLUICE_INLINE double Distribution::at_rank(std::int64_t rank) const {
  return std::lower_bound(sorted_.begin(), sorted_.end(), rank,
                          [](const WeightedSample& sample, std::int64_t r) { return sample.count < r; })
      ->value;
}

} // namespace sluice

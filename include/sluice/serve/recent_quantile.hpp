// SPDX-License-Identifier: Apache-2.0
// RecentQuantile: quantiles of the newest values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace sluice {

/// Keeps the newest `window` values (at least one). Quantiles use the nearest rank, as docs/metrics.md defines them, so
/// the P99 of fewer than a hundred values is the largest value.
class RecentQuantile {
 public:
  explicit RecentQuantile(std::size_t window) : window_(window) {}

  void add(double value) {
    if (values_.size() < window_)
      values_.push_back(value);
    else
      values_[next_] = value;
    next_ = (next_ + 1) % window_;
  }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  /// `share`: above 0, at most 1. Returns 0 if there are no values.
  [[nodiscard]] double quantile(double share) const {
    if (values_.empty()) return 0;
    std::vector<double> sorted = values_;
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(rank, 1, sorted.size()) - 1);
    std::nth_element(sorted.begin(), at, sorted.end());
    return *at;
  }

 private:
  std::size_t window_;
  std::size_t next_ = 0;
  std::vector<double> values_;
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Statistics: mean, median, deviation and percentiles as NumPy has them, for figures that are read beside vLLM's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace loading {

/// Of numbers in any order; NaN if there are none (vLLM's benchmark writes 0, which reads as a fast server).
template <class Number>
class Statistics {
 public:
  explicit Statistics(std::vector<Number> values) : values_(std::move(values)) {
    std::sort(values_.begin(), values_.end());
  }

  [[nodiscard]] std::size_t count() const { return values_.size(); }
  [[nodiscard]] double mean() const {
    if (values_.empty()) return none;
    double sum = 0;
    for (const Number value : values_) sum += static_cast<double>(value);
    return sum / static_cast<double>(values_.size());
  }
  /// Of the numbers themselves, not of a sample: divided by their count.
  [[nodiscard]] double deviation() const {
    if (values_.empty()) return none;
    const double middle = mean();
    double squares = 0;
    for (const Number value : values_)
      squares += (static_cast<double>(value) - middle) * (static_cast<double>(value) - middle);
    return std::sqrt(squares / static_cast<double>(values_.size()));
  }
  /// `percent` from 0 to 100, between two numbers in proportion.
  [[nodiscard]] double percentile(double percent) const {
    if (values_.empty()) return none;
    const double place = percent / 100 * static_cast<double>(values_.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values_.size() - 1);
    const double low = static_cast<double>(values_[below]);
    return low + (static_cast<double>(values_[above]) - low) * (place - static_cast<double>(below));
  }
  [[nodiscard]] double median() const { return percentile(50); }
  [[nodiscard]] double largest() const { return values_.empty() ? none : static_cast<double>(values_.back()); }

 private:
  static constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<Number> values_;
};

} // namespace loading

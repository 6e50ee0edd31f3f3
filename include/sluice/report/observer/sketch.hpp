// SPDX-License-Identifier: Apache-2.0
// Sketch: quantiles of any number of values in a fixed amount of memory.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/report/observer/quantile.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice {

/// Counts values in buckets of equal relative width, as HdrHistogram and DDSketch do. A quantile is off by at most
/// `error` of its value, and a value below `least` counts as 0; count, sum and maximum are exact. At most a few
/// thousand buckets, whatever the number of values: those between the smallest and the largest.
///
/// A bucket is the value's exponent and its first bits, so that the same values give the same buckets everywhere.
/// Rejected: `Distribution`, exact and with memory that grows with a run: a day of a thousand engines has gigabytes of
/// gaps; t-digest, whose result depends on the order of the values.
class Sketch {
 public:
  static constexpr double error = 1.0 / 256;
  static constexpr double least = 0x1p-40; ///< of values that are told apart from 0: a picosecond, in seconds

  /// `value` is not negative.
  void add(double value, std::int64_t count = 1) {
    SLUICE_ASSERT(value >= 0, "a value of at least 0");
    total_ += count;
    sum_ += value * static_cast<double>(count);
    max_ = std::max(max_, value);
    if (value < least) {
      zeros_ += count;
      return;
    }
    const std::uint64_t bucket = std::bit_cast<std::uint64_t>(value) >> shift;
    counts_at(bucket) += count;
  }

  [[nodiscard]] std::int64_t count() const { return total_; }
  [[nodiscard]] double sum() const { return sum_; }
  /// NaN without values, as are all below.
  [[nodiscard]] double mean() const { return total_ > 0 ? sum_ / static_cast<double>(total_) : absent(); }
  [[nodiscard]] double max() const { return total_ > 0 ? max_ : absent(); }
  /// The middle of the bucket that holds the `p`-quantile by nearest rank.
  [[nodiscard]] double quantile(double p) const {
    if (total_ == 0) return absent();
    std::int64_t rank = nearest_rank(p, total_) - zeros_;
    if (rank <= 0) return 0;
    std::size_t at = 0;
    while (rank > counts_[at]) rank -= counts_[at++];
    const double from = std::bit_cast<double>((first_ + at) << shift);
    const double to = std::bit_cast<double>((first_ + at + 1) << shift);
    return std::min(max_, (from + to) / 2);
  }
  /// Its memory, in buckets.
  [[nodiscard]] std::size_t buckets() const { return counts_.size(); }

 private:
  static constexpr int shift = 52 - 7; ///< of the fraction, 7 bits count
  std::int64_t& counts_at(std::uint64_t bucket) {
    if (counts_.empty()) first_ = bucket;
    if (bucket < first_) {
      counts_.insert(counts_.begin(), static_cast<std::size_t>(first_ - bucket), 0);
      first_ = bucket;
    }
    const auto at = static_cast<std::size_t>(bucket - first_);
    if (at >= counts_.size()) counts_.resize(at + 1);
    return counts_[at];
  }
  static constexpr double absent() { return std::numeric_limits<double>::quiet_NaN(); }

  std::vector<std::int64_t> counts_; ///< of bucket `first_` and those after it
  std::uint64_t first_ = 0;
  std::int64_t total_ = 0, zeros_ = 0; ///< zeros: values below `least`
  double sum_ = 0, max_ = 0;
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Peak: leaves out measured products that are faster than their device can be, and refuses tables full of them.
#pragma once

#include "sluice/core/expected.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace imported {

/// Counts the products of a table against the device's peak. A few measurements beyond it are mistakes of those rows; a
/// table with more than 1 % of them was measured on another device, with another data type, or timed nothing (one
/// public table says 2,600 TFLOP/s for a device with 990). The memory's rate is no bound: a benchmark that repeats a
/// product finds its weights in the second-level cache.
class Peak {
 public:
  explicit Peak(double flops_per_second) : most_(flops_per_second) {}

  /// Whether `flops` in `microseconds` are possible; counts the row.
  bool holds(double flops, double microseconds) {
    ++rows_;
    const bool possible = flops <= most_ * microseconds * 1e-6;
    if (!possible) ++beyond_;
    return possible;
  }
  [[nodiscard]] sluice::Status status(const std::string& table) const {
    if (beyond_ * 100 <= rows_) return {};
    return sluice::Error{sluice::ErrorCode::bad_input, table,
                         fmt::format("{} of {} products are faster than {:.0f} TFLOP/s", beyond_, rows_, most_ * 1e-12),
                         "times within the device's roofline"};
  }
  [[nodiscard]] std::int64_t beyond() const { return beyond_; }

 private:
  double most_;
  std::int64_t rows_ = 0, beyond_ = 0;
};

} // namespace imported

// SPDX-License-Identifier: Apache-2.0
// RmsNorm and LayerNorm of one row.
#pragma once

#include "sluice/model/decoder/eigen/stored.hpp"

#include <cmath>
#include <cstdint>

namespace sluice {

namespace detail {

/// The sum of `term(lanes)` over a row of `count` numbers: sixteen partial sums, then the tree. Beyond the row's end
/// `term` gets zeros, and must return zeros.
template <class Term>
[[nodiscard]] float row_sum(const float* x, std::int64_t count, const Term& term) {
  Lanes16 total = Lanes16::zero();
  for (std::int64_t at = 0; at < count; at += Lanes16::count) {
    const int left = static_cast<int>(count - at < Lanes16::count ? count - at : Lanes16::count);
    total = term(load_floats(x + at, left), total);
  }
  return sum(total);
}

} // namespace detail

/// y = x / sqrt(mean(x^2) + epsilon) * scale (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019).
struct RmsNorm {
  /// `y` may be `x`.
  static void apply(const float* x, std::int64_t count, const float* scale, const float* /*bias*/, float epsilon,
                    float* y) {
    const float squares = detail::row_sum(x, count, [](const Lanes16& a, const Lanes16& b) { return fused(a, a, b); });
    const float factor = 1.0F / std::sqrt(squares / static_cast<float>(count) + epsilon);
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor * scale[i];
  }
};

/// y = (x - mean(x)) / sqrt(variance(x) + epsilon) * scale + bias (Ba et al., "Layer Normalization", 2016).
struct LayerNorm {
  /// `y` may be `x`.
  static void apply(const float* x, std::int64_t count, const float* scale, const float* bias, float epsilon,
                    float* y) {
    const auto numbers = static_cast<float>(count);
    const float mean = detail::row_sum(x, count, [](const Lanes16& a, const Lanes16& b) { return a + b; }) / numbers;
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] - mean;
    const float squares = detail::row_sum(y, count, [](const Lanes16& a, const Lanes16& b) { return fused(a, a, b); });
    const float factor = 1.0F / std::sqrt(squares / numbers + epsilon);
    for (std::int64_t i = 0; i < count; ++i) y[i] = y[i] * factor * scale[i] + bias[i];
  }
};

} // namespace sluice

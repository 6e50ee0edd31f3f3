// SPDX-License-Identifier: Apache-2.0
// MeasuredLengths: the measured ratio of answer length to `max_tokens`.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/view/request_row.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace sluice {

/// The mean ratio of actual length to limit over about the last hundred answers. Clients set generous limits. If a
/// model ends its answers early, a forecast that assumes the limit as length refuses too many requests.
class MeasuredLengths {
 public:
  /// Returns 1 until a few answers have ended.
  [[nodiscard]] double share() const { return samples_ < few ? 1 : share_; }
  void ended(const RequestRow& row) {
    if (!row.spec.output_is_bound || row.spec.output.count() < 1) return;
    samples_ = std::min(samples_ + 1, window);
    const double sample = static_cast<double>(row.generated.count()) / static_cast<double>(row.spec.output.count());
    share_ += (sample - share_) / samples_;
  }

  /// Returns the length that a forecast assumes for a request.
  [[nodiscard]] static Tokens expected(const RequestRow& row, double share) {
    if (!row.spec.output_is_bound) return row.spec.output;
    const auto length = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(row.spec.output.count())));
    return Tokens{std::clamp<std::int64_t>(length, 1, row.spec.output.count())};
  }

 private:
  static constexpr int few = 20, window = 100;
  double share_ = 1;
  int samples_ = 0;
};

} // namespace sluice

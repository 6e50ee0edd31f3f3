// SPDX-License-Identifier: Apache-2.0
// MeasuredPace: how much longer iterations take than forecasts say.
#pragma once

#include "sluice/observer/observer.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace sluice {

/// An iteration as a forecast sees it.
struct ForeseenStep {
  std::int64_t step = 0, tokens = 0, running = 0;
  Seconds duration{0}; ///< by the model alone
};

/// Compares the next iteration as a forecast saw it with the one that then ran, if it was the same: with a cost model
/// that is wrong by a tenth, half of what a gate promises would break. The last twenty or so count.
///
/// Rejected: comparing predicted TTFTs with those that came. Who comes later delays them, which no forecast claims to
/// know.
class MeasuredPace {
 public:
  /// Of actual times over the model's.
  [[nodiscard]] double slowdown() const { return slowdown_; }

  /// What runs next, unless somebody comes or goes; none: nobody knows.
  void foresee(const std::optional<ForeseenStep>& next) { next_ = next; }
  void ran(const IterationRecord& record) {
    const std::optional<ForeseenStep> next = std::exchange(next_, std::nullopt);
    if (!next || next->step != record.step || next->tokens != record.tokens.count() ||
        next->running != record.running || next->duration.count() <= 0)
      return;
    samples_ = std::min(samples_ + 1, 20);
    const double sample = std::clamp(record.duration / next->duration, 0.1, 10.0);
    slowdown_ += (sample - slowdown_) / samples_;
  }

 private:
  std::optional<ForeseenStep> next_;
  double slowdown_ = 1;
  int samples_ = 0;
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// LookBudget: limits the share of an engine's time that forecasts take.
#pragma once

#include "sluice/serve/recent_quantile.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice {

/// Measures how long an engine's steps take, for gates that look ahead between them.
class StepPace {
 public:
  /// Records that a step took `seconds` of the wall clock.
  void ran(double seconds) {
    ++steps_;
    mean_s_ += (seconds - mean_s_) / static_cast<double>(std::min(steps_, window));
    longest_s_ = std::max(seconds, longest_s_ * 0.99);
    recent_.add(seconds);
  }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Returns the mean length of about the last fifty steps, in seconds.
  [[nodiscard]] double mean_s() const { return mean_s_; }
  /// Returns the longest recent step, in seconds. A maximum decays by a hundredth per step.
  [[nodiscard]] double longest_s() const { return longest_s_; }
  /// Returns the P99 of about the last five hundred steps, including those with prompts, in seconds.
  [[nodiscard]] double slow_s() const { return recent_.quantile(0.99); }

 private:
  static constexpr std::int64_t window = 50;
  std::int64_t steps_ = 0;
  double mean_s_ = 0;
  double longest_s_ = 0;
  RecentQuantile recent_{512};
};

/// Seconds that forecasts may take. Each step earns a share of the mean step. Unused time is carried over, up to a
/// limit, because a forecast takes longer than one step earns. A forecast that took too long leaves a debt that later
/// steps pay off, so the share holds over a long time, whatever a single forecast takes.
class LookBudget {
 public:
  /// Adds the time that the steps since the last call have earned. `most_s`: the limit of the budget.
  void earn(const StepPace& pace, double share, double most_s) {
    const auto steps = static_cast<double>(pace.steps() - seen_);
    seen_ = pace.steps();
    if (steps > 0) left_s_ = std::min(most_s, left_s_ + share * pace.mean_s() * steps);
  }
  /// Returns whether a forecast of the usual length fits; a shorter one would be useless. At most all of `most_s` is
  /// required.
  [[nodiscard]] bool allows(double most_s) const { return left_s_ > 0 && left_s_ >= std::min(usual_s_, most_s); }
  /// Records that a forecast took `decision_s` for its decision, and `rest_s` to find a time to retry. `free`: the
  /// engine was empty, so that only the newcomer waited.
  void spend(double decision_s, double rest_s, bool free) {
    if (!free) left_s_ -= decision_s + rest_s;
    usual_s_ += (decision_s - usual_s_) / static_cast<double>(samples_ = std::min<std::int64_t>(samples_ + 1, 20));
  }
  [[nodiscard]] double left_s() const { return left_s_; }
  /// Returns the mean time of about the last twenty decisions, in seconds.
  [[nodiscard]] double usual_s() const { return usual_s_; }

 private:
  double left_s_ = 0;
  double usual_s_ = 0;
  std::int64_t seen_ = 0, samples_ = 0;
};

} // namespace sluice

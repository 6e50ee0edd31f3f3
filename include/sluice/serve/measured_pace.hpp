// SPDX-License-Identifier: Apache-2.0
// Measured ratios: of actual to forecast iteration times, and of answer lengths to `max_tokens`.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/report/observer/observer.hpp"
#include "sluice/state/view/request_row.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

namespace sluice {

// MeasuredPace: the measured ratio of actual to forecast iteration time.

/// An iteration predicted by a forecast.
struct ForeseenStep {
  std::int64_t step = 0, tokens = 0, running = 0;
  Seconds duration{0}; ///< computed by the cost model, without correction
};

/// Compares a predicted iteration with the one that ran, if both had the same requests and tokens; averages about the
/// last twenty. Adds the time between iterations, in which the engine makes forecasts and the server does its own work;
/// copies of the engine do not simulate it. Without this correction, a cost model with an error of 10 % makes the gate
/// admit requests of which half then miss their SLO.
///
/// Rejected: comparing predicted TTFTs with measured ones. Later requests delay these in ways that no forecast covers.
class MeasuredPace {
 public:
  /// Returns the ratio of measured time, including the time between iterations, to the cost model's time.
  [[nodiscard]] double slowdown() const { return slowdown_ * (1 + between_); }

  /// Stores the prediction for the next iteration, if there is one.
  void foresee(const std::optional<ForeseenStep>& next) { next_ = next; }
  /// Records that an iteration took `seconds`, and began `after` seconds after the previous one; below 0: the engine
  /// was idle between them.
  void stepped(double seconds, double after) {
    if (after < 0 || seconds <= 0) return;
    steps_ = std::min(steps_ + 1, window);
    seconds_ += (seconds - seconds_) / steps_;
    after_ += (after - after_) / steps_;
    between_ = after_ / seconds_;
  }
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
  static constexpr int window = 200; ///< iterations; large, because forecasts precede only a few of them
  double slowdown_ = 1;
  int samples_ = 0;
  double seconds_ = 0, after_ = 0; ///< length of the mean iteration, and mean time before it
  double between_ = 0;
  int steps_ = 0;
};

// MeasuredLengths: the measured ratio of answer length to `max_tokens`.

/// The mean ratio of actual length to limit over about the last hundred answers. Clients set generous limits. If a
/// model ends its answers early, a forecast that assumes the limit as length refuses too many requests.
class MeasuredLengths {
 public:
  /// Returns 1 until a few answers have ended.
  [[nodiscard]] double share() const { return samples_ < few ? 1 : share_; }
  void ended(const RequestRow& row) {
    const std::optional<Tokens> bound = row.spec.output_bound();
    if (!bound || bound->count() < 1) return;
    samples_ = std::min(samples_ + 1, window);
    const double sample = static_cast<double>(row.generated.count()) / static_cast<double>(bound->count());
    share_ += (sample - share_) / samples_;
  }

  /// Returns the length that a forecast assumes for a request.
  [[nodiscard]] static Tokens expected(const RequestRow& row, double share) {
    const std::optional<Tokens> bound = row.spec.output_bound();
    if (!bound) return row.output(not_a_policy);
    const auto length = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(bound->count())));
    return Tokens{std::clamp<std::int64_t>(length, 1, bound->count())};
  }

 private:
  static constexpr int few = 20, window = 100;
  double share_ = 1;
  int samples_ = 0;
};

} // namespace sluice

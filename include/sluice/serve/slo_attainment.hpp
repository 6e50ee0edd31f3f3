// SPDX-License-Identifier: Apache-2.0
// SloAttainment: one request's SLO attainment during serving.
#pragma once

#include "sluice/core/deadlines.hpp"
#include "sluice/core/units.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace sluice {

/// A request's SLO attainment, computed from the tokens that its user has received. Counts like the metrics: a gap
/// within the TBT is a token on time; a longer gap misses the deadlines that pass in it.
struct SloAttainment {
  Slo slo;
  Seconds arrival{0};
  Seconds first{-1};  ///< when the first token was delivered; below 0: not yet
  Seconds last{0};    ///< when the newest token was delivered
  Seconds longest{0}; ///< longest gap between two tokens
  std::int64_t on_time = 0, missed = 0;

  enum class Verdict : std::uint8_t { none, met, missed };
  /// The changes caused by one release.
  struct Counted {
    bool first = false; ///< the release included the first token
    std::int64_t on_time = 0, missed = 0;
  };

  [[nodiscard]] bool started() const { return first.count() >= 0; }
  [[nodiscard]] bool paces() const { return !std::isinf(slo.tbt.count()); }
  /// Returns the number of deadlines that have passed since the newest token.
  [[nodiscard]] std::int64_t missing(Seconds now) const { return started() ? deadlines_passed(last, now, slo.tbt) : 0; }
  /// Returns whether the first token was late, or is still missing after its deadline.
  [[nodiscard]] bool first_is_late(Seconds now) const {
    return !sluice::on_time((started() ? first : now) - arrival, slo.ttft, started() ? first : now);
  }
  [[nodiscard]] bool has_slo() const { return !std::isinf(slo.ttft.count()) || paces(); }
  [[nodiscard]] Verdict verdict(Seconds now) const {
    if (!has_slo()) return Verdict::none;
    return first_is_late(now) || missed + missing(now) > 0 ? Verdict::missed : Verdict::met;
  }
  /// Returns whether the same deliveries would miss another SLO.
  [[nodiscard]] bool misses(const Slo& by, Seconds now) const {
    const Seconds since = started() ? last : arrival;
    if (!started()) return !sluice::on_time(now - since, by.ttft, now);
    return !sluice::on_time(first - arrival, by.ttft, first) || !sluice::on_time(longest, by.tbt, last) ||
           !sluice::on_time(now - since, by.tbt, now);
  }
  /// Records that `count` tokens, at least one, reach the user together.
  Counted release(std::int64_t count, Seconds when) {
    Counted now{.on_time = count - 1}; // tokens released together have no gap between them
    if (!started()) {
      now.first = true;
      first = when;
    } else {
      longest = std::max(longest, when - last);
    }
    if (!now.first && paces()) {
      now.missed = deadlines_missed(when - last, slo.tbt, when);
      if (sluice::on_time(when - last, slo.tbt, when)) ++now.on_time;
    }
    last = when;
    if (!paces()) now.on_time = 0;
    on_time += now.on_time;
    missed += now.missed;
    return now;
  }
};

} // namespace sluice

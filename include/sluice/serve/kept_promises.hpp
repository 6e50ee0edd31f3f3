// SPDX-License-Identifier: Apache-2.0
// KeptPromises: how the promises to one request are kept, while it is served.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/observer/deadlines.hpp"
#include "sluice/workload/request.hpp"

#include <cmath>
#include <cstdint>

namespace sluice {

/// How a request's promises are kept, by what its user has been handed. As metrics count: a gap within the SLO is a
/// token on time, a longer one misses the deadlines that pass in it.
struct KeptPromises {
  Slo slo;
  Seconds arrival{0};
  Seconds first{-1}; ///< when the first token was handed over; below 0: not yet
  Seconds last{0};   ///< when the newest was
  std::int64_t on_time = 0, missed = 0;

  enum class Verdict : std::uint8_t { none, met, missed };

  [[nodiscard]] bool started() const { return first.count() >= 0; }
  [[nodiscard]] bool paces() const { return !std::isinf(slo.tbt.count()); }
  /// Deadlines that have passed since the newest token.
  [[nodiscard]] std::int64_t missing(Seconds now) const { return started() ? deadlines_passed(last, now, slo.tbt) : 0; }
  /// A first token that has not come is late once its time has passed.
  [[nodiscard]] bool first_is_late(Seconds now) const {
    return !sluice::on_time((started() ? first : now) - arrival, slo.ttft, started() ? first : now);
  }
  [[nodiscard]] Verdict verdict(Seconds now) const {
    if (std::isinf(slo.ttft.count()) && !paces()) return Verdict::none;
    return first_is_late(now) || missed + missing(now) > 0 ? Verdict::missed : Verdict::met;
  }
};

} // namespace sluice

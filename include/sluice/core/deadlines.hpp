// SPDX-License-Identifier: Apache-2.0
// Deadlines: whether a gap is on time, and how many deadlines pass during a late gap.
#pragma once

#include "sluice/core/units.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice {

/// Seconds that rounding may add to a gap that is exactly the SLO: 1e-9 of the SLO, and two roundings of the clock at
/// `when` (doubles near 1e6 seconds are 1e-10 apart, which already exceeds 1e-9 of a short SLO).
[[nodiscard]] constexpr double deadline_slack_s(double slo_s, double when_s) {
  return 1e-9 * slo_s + 4 * std::numeric_limits<double>::epsilon() * when_s;
}

/// Whether a gap that ended at `when` is within the SLO, up to rounding.
[[nodiscard]] constexpr bool on_time(Seconds gap, Seconds slo, Seconds when) {
  return gap.count() <= slo.count() + deadline_slack_s(slo.count(), when.count());
}

/// Deadlines that passed without a token during a late gap: ceil(gap / SLO) - 1, since the late token's own deadline is
/// counted separately. 0 for a gap that is on time.
[[nodiscard]] inline std::int64_t deadlines_missed(Seconds gap, Seconds slo, Seconds when) {
  if (on_time(gap, slo, when)) return 0;
  const double exact = (gap.count() - deadline_slack_s(slo.count(), when.count())) / slo.count();
  // Bounded, so that a huge gap with a tiny SLO still gives a count that can be added up.
  return static_cast<std::int64_t>(std::min(std::ceil(exact) - 1, 1e15));
}

/// Deadlines that passed while a user waited from `since` to `end` for a token that never came: floor(wait / SLO),
/// including one at `end` itself. 0 without an SLO.
[[nodiscard]] inline std::int64_t deadlines_passed(Seconds since, Seconds end, Seconds slo) {
  if (end <= since || std::isinf(slo.count())) return 0;
  const double exact = ((end - since).count() + deadline_slack_s(slo.count(), end.count())) / slo.count();
  return static_cast<std::int64_t>(std::min(std::floor(exact), 1e15));
}

} // namespace sluice

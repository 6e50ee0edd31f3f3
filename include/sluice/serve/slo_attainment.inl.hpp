// SPDX-License-Identifier: Apache-2.0
// SloAttainment: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/slo_attainment.hpp"

#include <algorithm>

namespace sluice {

SLUICE_INLINE bool SloAttainment::first_is_late(Seconds now) const {
  return !sluice::on_time((started() ? first : now) - arrival, slo.ttft, started() ? first : now);
}

SLUICE_INLINE SloAttainment::Verdict SloAttainment::verdict(Seconds now) const {
  if (!has_slo()) return Verdict::none;
  return first_is_late(now) || missed + missing(now) > 0 ? Verdict::missed : Verdict::met;
}

SLUICE_INLINE bool SloAttainment::misses(const Slo& by, Seconds now) const {
  const Seconds since = started() ? last : arrival;
  if (!started()) return !sluice::on_time(now - since, by.ttft, now);
  return !sluice::on_time(first - arrival, by.ttft, first) || !sluice::on_time(longest, by.tbt, last) ||
         !sluice::on_time(now - since, by.tbt, now);
}

SLUICE_INLINE SloAttainment::Counted SloAttainment::release(std::int64_t count, Seconds when) {
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

} // namespace sluice

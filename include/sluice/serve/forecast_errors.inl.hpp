// SPDX-License-Identifier: Apache-2.0
// ForecastErrors: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/forecast_errors.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice {

SLUICE_INLINE void ForecastErrors::foretell(const std::vector<Foretold>& all) {
  for (const Foretold& one : all) {
    const auto found = live_.find(index(one.id));
    if (found == live_.end()) continue;
    found->second.first = std::max(found->second.first, one.first);
    found->second.longest = std::max(found->second.longest, one.longest);
  }
}

SLUICE_INLINE void ForecastErrors::delivered(RequestId id, Seconds when) {
  const auto found = live_.find(index(id));
  if (found == live_.end()) return;
  Live& live = found->second;
  const Seconds last = std::exchange(live.last, when);
  if (last.count() >= 0)
    live.measured = std::max(live.measured, when - last);
  else if (live.first.count() >= 0 && !std::isinf(live.slo.ttft.count()))
    add(live.slo, &ForecastErrorsOfClass::ttft, when - live.first);
}

SLUICE_INLINE void ForecastErrors::ended(RequestId id) {
  const auto found = live_.find(index(id));
  if (found == live_.end()) return;
  const Live& live = found->second;
  if (live.longest.count() > 0 && live.measured.count() > 0 && !std::isinf(live.slo.tbt.count()))
    add(live.slo, &ForecastErrorsOfClass::gap, live.measured - live.longest);
  live_.erase(found);
}

SLUICE_INLINE SloLead ForecastErrors::margin(const Slo& slo) const {
  const ForecastErrorsOfClass* const found = classes_.find(slo); // refused requests must not take classes
  const ForecastErrorsOfClass& own = found == nullptr ? all_ : *found;
  const SloLead little = unmeasured_lead(slo);
  return {margin(own.ttft, all_.ttft, little.ttft), margin(own.gap, all_.gap, little.tbt)};
}

SLUICE_INLINE Seconds ForecastErrors::margin(const RecentQuantile& own, const RecentQuantile& all, Seconds little) {
  const RecentQuantile& errors = own.size() < few ? all : own;
  const Seconds measured{std::max(0.0, errors.quantile(share))};
  return errors.size() < few ? std::max(measured, little) : measured;
}

SLUICE_INLINE void ForecastErrors::add(const Slo& slo, RecentQuantile ForecastErrorsOfClass::*of, Seconds error) {
  (classes_.of(slo).*of).add(error.count());
  (all_.*of).add(error.count());
  ++measured_;
}

SLUICE_INLINE ForecastErrorQuantiles ForecastErrorQuantiles::of(const RecentQuantile& errors) {
  ForecastErrorQuantiles all{.count = errors.size()};
  for (std::size_t at = 0; at < shares.size(); ++at) all.seconds[at] = errors.quantile(shares[at]);
  return all;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// LookAhead: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/serve/look_ahead.hpp"

#include <algorithm>

namespace sluice {

SLUICE_INLINE bool SloReading::Followed::missed(Limit limit, Seconds now) const {
  return attainment.misses(limit == Limit::keep ? limits.keep : limits.firm,
                           over && attainment.started() ? attainment.last : now);
}

SLUICE_INLINE void SloReading::take_over(const SloReading& other) {
  of_ = other.of_;
  missed_ = other.missed_;
  left_ = other.left_;
}

SLUICE_INLINE void SloReading::follow(RequestId id, const SloAttainment& attainment, const Limits& limits,
                                      bool promised) {
  const Followed one{attainment, limits, Seconds{0}, attainment.started(), promised, false};
  if (!of_.try_emplace(index(id), one).second) return;
  left_ += promised ? 0 : 1;
  if (attainment.misses(limits.keep, std::max(attainment.last, attainment.arrival)))
    missed_.push_back({id, Limit::keep}); // missed before any newcomer
}

SLUICE_INLINE const SloReading::Followed& SloReading::of(RequestId id) const {
  const auto found = of_.find(index(id));
  SLUICE_ASSERT(found != of_.end(), "a request that is followed");
  return found->second;
}

SLUICE_INLINE bool SloReading::misses(const Miss& one) const {
  return std::find(missed_.begin(), missed_.end(), one) != missed_.end();
}

SLUICE_INLINE std::vector<Foretold> SloReading::foretold(Seconds now) const {
  std::vector<Foretold> all;
  for (const auto& [at, one] : of_)
    if (!one.promised && !one.missed(Limit::firm, now))
      all.push_back({RequestId{at},
                     one.attainment.started() && !one.started_before ? one.attainment.first : Seconds{-1},
                     one.longest});
  return all;
}

SLUICE_INLINE void SloReading::look_at(Seconds now) {
  for (auto& [at, one] : of_)
    if (!one.over) look_at(RequestId{at}, one, now);
}

SLUICE_INLINE void SloReading::hear(const AnyEvent& event) {
  event.visit(hears{}, [this](const auto& of_its_type) { this->on(of_its_type); });
}

SLUICE_INLINE void SloReading::on(const events::Delivered& event) {
  const auto found = of_.find(index(event.row.id));
  if (found == of_.end() || event.count.count() < 1) return;
  Followed& one = found->second;
  if (one.attainment.started()) one.longest = std::max(one.longest, event.when - one.attainment.last);
  (void)one.attainment.release(event.count.count(), event.when);
  look_at(event.row.id, one, event.when);
}

SLUICE_INLINE void SloReading::on(const events::Refused& event) {
  if (!over(event.id)) return;
  add_missed({event.id, Limit::keep});
  add_missed({event.id, Limit::firm});
}

SLUICE_INLINE void SloReading::on(const events::Iterated& event) {
  const IterationRecord& record = event.record;
  if (!first_) first_ = ForeseenStep{record.step, record.tokens.count(), record.running, record.duration};
}

SLUICE_INLINE bool SloReading::over(RequestId id) {
  const auto found = of_.find(index(id));
  if (found == of_.end() || found->second.over) return false;
  found->second.over = true;
  left_ -= found->second.promised ? 0 : 1;
  return true;
}

SLUICE_INLINE void SloReading::look_at(RequestId id, const Followed& one, Seconds now) {
  for (const Limit limit : {Limit::keep, Limit::firm})
    if (one.missed(limit, now)) add_missed({id, limit});
}

SLUICE_INLINE void SloReading::add_missed(const Miss& one) {
  if (!misses(one)) missed_.push_back(one);
}

} // namespace sluice

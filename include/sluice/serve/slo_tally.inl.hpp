// SPDX-License-Identifier: Apache-2.0
// SloTally: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/slo_tally.hpp"

#include <cmath>
#include <cstddef>

namespace sluice {

SLUICE_SERVER_INLINE void SloTally::add(const SloAttainment& kept, Seconds over) {
  ++requests;
  const SloAttainment::Verdict verdict = kept.verdict(kept.started() ? kept.last : over);
  if (verdict != SloAttainment::Verdict::none) ++with_slo;
  if (verdict == SloAttainment::Verdict::met) ++met;
  if (!std::isinf(kept.slo.ttft.count())) {
    ++with_ttft;
    if (!kept.first_is_late(over)) ++first_in_time;
  }
  on_time += kept.on_time;
  missed += kept.missed;
}

SLUICE_SERVER_INLINE void SloTally::add_refused(const Slo& slo) {
  ++requests;
  ++refused;
  if (SloAttainment{.slo = slo}.has_slo()) ++with_slo;
  if (!std::isinf(slo.ttft.count())) ++with_ttft;
}

SLUICE_SERVER_INLINE double SloTally::share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : std::nan("");
}

SLUICE_SERVER_INLINE SloJudge::SloJudge(std::span<const RequestSpec> requests) {
  for (const RequestSpec& request : requests) kept_.push_back({.slo = request.slo, .arrival = request.arrival});
  over_.resize(kept_.size());
}

SLUICE_SERVER_INLINE void SloJudge::finish() {
  for (std::size_t i = 0; i < kept_.size(); ++i)
    if (!over_[i]) tally_.add_refused(kept_[i].slo);
}

SLUICE_SERVER_INLINE void SloJudge::hear(const AnyEvent& event) {
  event.visit(hears{}, [this](const auto& of_its_type) { this->on(of_its_type); });
}

SLUICE_SERVER_INLINE void SloJudge::on(const events::Delivered& event) {
  if (event.count.count() > 0) (void)kept_.at(index(event.row.id)).release(event.count.count(), event.when);
}

SLUICE_SERVER_INLINE void SloJudge::on(const events::Ended& event) {
  over_.at(index(event.row.id)) = true;
  tally_.add(kept_.at(index(event.row.id)), event.now);
}

SLUICE_SERVER_INLINE void SloJudge::on(const events::Refused& event) {
  over_.at(index(event.id)) = true;
  tally_.add_refused(kept_.at(index(event.id)).slo);
}

} // namespace sluice

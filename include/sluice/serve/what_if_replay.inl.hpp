// SPDX-License-Identifier: Apache-2.0
// what_if_replay: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/spare_thread.hpp"
#include "sluice/serve/what_if_replay.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>

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

SLUICE_SERVER_INLINE WhatIfRequests what_if_requests(const ServedRequests::Copy& copy) {
  WhatIfRequests all;
  all.crowded = copy.crowded;
  Seconds begin{0}, end{0};
  for (const ServedRequest& request : copy.requests) {
    if (request.generated.count() < 1 && !request.kept.first_is_late(request.ended)) {
      ++all.left_out;
      continue;
    }
    RequestSpec spec = request.spec;
    if (all.replayed.empty()) begin = spec.arrival;
    end = std::max(end, request.ended);
    spec.arrival = spec.arrival - begin;
    spec.slo = request.kept.slo; // without this server's margins
    spec.output = std::max(Tokens{1}, request.generated);
    spec.output_is_bound = false;
    all.replayed.push_back(spec);
    all.served.add(request.kept, request.ended);
  }
  if (!all.replayed.empty()) all.span_s = (end - begin).count();
  return all;
}

SLUICE_SERVER_INLINE WhatIfResult replay_what_if(const WhatIfSystem& system, std::span<const RequestSpec> requests,
                                                 double most_processor_s, const std::atomic<bool>& stop) {
  WhatIfResult result;
  result.system = system.name;
  SloJudge judge(requests);
  const double began = thread_seconds();
  bool cut = false;
  const Status status = system.replay(requests, judge, [&] {
    return cut = cut || stop.load(std::memory_order_relaxed) || thread_seconds() - began > most_processor_s;
  });
  if (status && !cut) judge.finish();
  result.tally = judge.tally();
  result.processor_s = thread_seconds() - began;
  if (!status) {
    result.state = WhatIfResult::State::failed;
    result.why = status.error().line();
  } else if (cut) {
    result.state = WhatIfResult::State::cut;
    char text[120];
    std::snprintf(text, sizeof text, "cut after %.3g s of processor time, with %lld of %lld requests replayed",
                  most_processor_s, static_cast<long long>(result.tally.requests),
                  static_cast<long long>(requests.size()));
    result.why = text;
  }
  return result;
}

} // namespace sluice

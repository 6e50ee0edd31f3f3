// SPDX-License-Identifier: Apache-2.0
// ServedRequests: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/served_requests.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace sluice {

SLUICE_INLINE void ServedRequests::over(const ServedRequest& request, Clock::time_point at) {
  const std::lock_guard lock{mutex_};
  if (all_.size() == most) {
    crowded_until_ = all_.front().at + window;
    all_.pop_front();
  }
  all_.push_back({request, at});
  ++total_;
  forget(at);
}

SLUICE_INLINE ServedRequests::Copy ServedRequests::copy(Clock::time_point now) {
  Copy copy;
  {
    const std::lock_guard lock{mutex_};
    forget(now);
    copy.requests.reserve(all_.size());
    for (const Ended& one : all_) copy.requests.push_back(one.request);
    copy.total = total_;
    copy.crowded = crowded_until_ >= now;
  }
  std::sort(copy.requests.begin(), copy.requests.end(), [](const ServedRequest& a, const ServedRequest& b) {
    return std::pair{a.spec.arrival, index(a.id)} < std::pair{b.spec.arrival, index(b.id)}; // a gate may hold some
  });
  return copy;
}

SLUICE_INLINE std::int64_t ServedRequests::total() const {
  const std::lock_guard lock{mutex_};
  return total_;
}

SLUICE_INLINE void ServedRequests::forget(Clock::time_point now) {
  while (!all_.empty() && now - all_.front().at > window) all_.pop_front();
}

SLUICE_INLINE void write_request(std::string& to, const ServedRequest& request) {
  const SloAttainment& kept = request.kept;
  const Seconds first = kept.started() ? kept.first : request.ended;
  const Seconds last = kept.started() ? kept.last : request.ended;
  const Seconds scheduled = request.scheduled.count() < 0 ? first : std::min(request.scheduled, first);
  JsonWriter json(to);
  json.begin_object().key("request_id").value(std::to_string(index(request.id)));
  json.key("input_toks").value(request.spec.prompt.count());
  json.key("output_toks").value(std::max<std::int64_t>(1, request.generated.count()));
  json.key("queued_ts").value(kept.arrival.count()).key("scheduled_ts").value(scheduled.count());
  json.key("first_token_ts").value(first.count()).key("last_token_ts").value(last.count());
  if (request.submitted.count() >= 0) json.key("submitted_ts").value(request.submitted.count());
  json.key("max_tokens").value(request.spec.output.count());
  const Slo& given = request.spec.slo;
  for (const auto& [name, limit] : {std::pair{"slo_ttft_s", kept.slo.ttft}, {"slo_tbt_s", kept.slo.tbt}})
    if (!std::isinf(limit.count())) json.key(name).value(limit.count());
  if (given.ttft < kept.slo.ttft) json.key("engine_slo_ttft_s").value(given.ttft.count());
  if (given.tbt < kept.slo.tbt) json.key("engine_slo_tbt_s").value(given.tbt.count());
  if (request.spec.priority != 0) json.key("priority").value(std::int64_t{request.spec.priority});
  if (const SessionHints& hints = request.spec.hints; hints.said().any()) write_hints(json, hints);
  if (request.spec.session > 0)
    json.key("session").value(std::int64_t{request.spec.session}).key("turn").value(std::int64_t{request.spec.turn});
  json.key("cancelled").value(request.cancelled).end_object();
  to += '\n';
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// write_request: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/request_record.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace sluice {

SLUICE_SERVER_INLINE void write_request(std::string& to, const ServedRequest& request) {
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
  json.key("max_tokens").value(request.spec.output.count());
  const Slo& given = request.spec.slo;
  for (const auto& [name, limit] : {std::pair{"slo_ttft_s", kept.slo.ttft}, {"slo_tbt_s", kept.slo.tbt}})
    if (!std::isinf(limit.count())) json.key(name).value(limit.count());
  if (given.ttft < kept.slo.ttft) json.key("engine_slo_ttft_s").value(given.ttft.count());
  if (given.tbt < kept.slo.tbt) json.key("engine_slo_tbt_s").value(given.tbt.count());
  if (request.spec.session > 0)
    json.key("session").value(std::int64_t{request.spec.session}).key("turn").value(std::int64_t{request.spec.turn});
  json.key("cancelled").value(request.cancelled).end_object();
  to += '\n';
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// write_request: writes a finished request as one line of a record, which sluice-compare reads as a trace.
#pragma once

#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/served_request.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

namespace sluice {

/// Appends a line in the format of recorded vLLM runs (workload/nlohmann/vllm_run.hpp), with more fields: `slo_ttft_s`
/// and `slo_tbt_s`, absent without an SLO; `engine_slo_ttft_s` and `engine_slo_tbt_s`, the tighter SLO that the engine
/// got, if it differs; `max_tokens`, the limit that the engine knew; and `session` and `turn`, if the client named its
/// session.
///
/// Among the four trace formats, only this one has a time for each event of a request, and only its lines may be in any
/// order. A line can therefore be written when its request ends, and a server that is killed loses only running
/// requests. A request without a token (it was `cancelled`) is recorded with one token, the minimum of a trace; the
/// times that it never reached are set to its end.
inline void write_request(std::string& to, const ServedRequest& request) {
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

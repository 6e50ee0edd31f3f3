// SPDX-License-Identifier: Apache-2.0
// write_request: a request that is over as one line of a record, which comparisons read as a trace.
#pragma once

#include "sluice/observer/json_writer.hpp"
#include "sluice/serve/served_request.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

namespace sluice {

/// Appends a line in the format of recorded vLLM runs (workload/nlohmann/vllm_run.hpp), with three fields more:
/// `slo_ttft_s` and `slo_tbt_s`, left out where nothing was promised, and `max_tokens`, the bound that the engine knew.
///
/// Of the four formats that are read this is the one with a time for each thing that happens to a request, and the
/// only one whose lines may stand in another order than that of arrival: a line is written when its request ends, so
/// that a server that is killed has lost those under way and no other. A request that got no token (`cancelled` tells)
/// stands with one, which is as short as a trace's requests are, and with its end for the times it never reached.
inline void write_request(std::string& to, const ServedRequest& request) {
  const KeptPromises& kept = request.kept;
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
  for (const auto& [name, promise] : {std::pair{"slo_ttft_s", kept.slo.ttft}, {"slo_tbt_s", kept.slo.tbt}})
    if (!std::isinf(promise.count())) json.key(name).value(promise.count());
  json.key("cancelled").value(request.cancelled).end_object();
  to += '\n';
}

} // namespace sluice

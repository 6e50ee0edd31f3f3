// SPDX-License-Identifier: Apache-2.0
// write_request: writes a finished request as one line of a record, which sluice-compare reads as a trace.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/served_request.hpp"

#include <string>

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
void write_request(std::string& to, const ServedRequest& request);

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/request_record.inl.hpp"
#endif

// SPDX-License-Identifier: Apache-2.0
// Reads a request's headers: content type, SLO.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/nlohmann/openai_request.hpp"
#include "sluice/workload/request.hpp"

#include <optional>

namespace sluice {

/// Returns whether the content type is JSON, or is absent in a request that does not come from a web page. A page of
/// any origin can make a browser post plain text or a body without a type, without a CORS preflight, and so use a
/// server that the page's reader can reach.
[[nodiscard]] bool says_json(const HttpHeaders& headers);

/// Reads x-slo-ttft-ms and x-slo-tbt-ms, which override the body's SLO.
[[nodiscard]] std::optional<ApiError> read_slo_headers(const HttpHeaders& headers, Slo& slo);

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/nlohmann/openai_headers.inl.hpp"
#endif

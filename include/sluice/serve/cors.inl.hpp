// SPDX-License-Identifier: Apache-2.0
// Cors: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/cors.hpp"

#include <algorithm>

namespace sluice {

SLUICE_SERVER_INLINE HttpResponse Cors::open(HttpResponse response) const {
  if (!allowed()) return response;
  response.headers.add("Access-Control-Allow-Origin", origin_);
  response.headers.add("Access-Control-Expose-Headers",
                       "x-sluice-forecast, x-request-id, retry-after, retry-after-ms, "
                       "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
                       "x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens");
  return response;
}

SLUICE_SERVER_INLINE std::unique_ptr<Exchange> Cors::open(std::unique_ptr<Exchange> exchange) const {
  if (!allowed()) return exchange;
  return std::make_unique<Opened>(*this, std::move(exchange));
}

SLUICE_SERVER_INLINE HttpResponse Cors::preflight(const HttpRequest& request) {
  HttpResponse response;
  response.status = 204;
  response.type.clear();
  response.headers.add("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  const std::string_view wanted = request.headers.find("Access-Control-Request-Headers");
  response.headers.add("Access-Control-Allow-Headers",
                       names_headers(wanted) ? std::string{wanted}
                                             : "authorization, content-type, traceparent, x-slo-ttft-ms, x-slo-tbt-ms");
  response.headers.add("Access-Control-Max-Age", "86400");
  return response;
}

SLUICE_SERVER_INLINE bool Cors::names_headers(std::string_view text) {
  constexpr std::size_t most = 4096;
  const auto may_be = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view{"!#$%&'*+-.^_`|~, "}.find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), may_be);
}

} // namespace sluice

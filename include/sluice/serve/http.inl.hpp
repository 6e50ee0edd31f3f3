// SPDX-License-Identifier: Apache-2.0
// HttpApp: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/http.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace sluice {

SLUICE_INLINE std::string_view HttpHeaders::find(std::string_view name) const {
  for (const auto& [key, value] : all_)
    if (same_name(key, name)) return value;
  return {};
}

SLUICE_INLINE bool HttpHeaders::same_name(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

SLUICE_INLINE std::string_view HttpRequest::path() const {
  std::string_view rest = target;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!HttpHeaders::same_name(rest.substr(0, scheme.size()), scheme)) continue;
    rest.remove_prefix(scheme.size());
    rest.remove_prefix(std::min(rest.find_first_of("/?"), rest.size()));
    break;
  }
  rest = rest.substr(0, rest.find('?'));
  return rest.empty() ? "/" : rest;
}

} // namespace sluice

namespace sluice::detail {

SLUICE_INLINE bool shows_inside(std::string_view path) {
  constexpr std::array<std::string_view, 4> paths{"/metrics", "/live", "/live/state", "/whatif"};
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

[[nodiscard]] inline bool is_probe(std::string_view path) {
  constexpr std::array<std::string_view, 3> paths{"/health", "/ready", "/ping"};
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE void AdminApp::handle(HttpRequest request, std::unique_ptr<Exchange> exchange) {
  const std::string_view path = request.path();
  if (detail::shows_inside(path) || detail::is_probe(path))
    return app_->handle(std::move(request), std::move(exchange));
  if (path != "/drain")
    return exchange->respond(app_->refuse(
        404, "this is the admin port; expected /health, /ready, /metrics, /live, /whatif or POST /drain", &request));
  if (request.method != "POST") {
    HttpResponse response = app_->refuse(405, "this path answers POST alone", &request);
    response.headers.add("Allow", "POST");
    return exchange->respond(std::move(response));
  }
  if (!request.headers.find("Origin").empty()) // any web page could make its reader's browser send this request
    return exchange->respond(
        app_->refuse(403, "a web page asks for the drain; expected a request without Origin", &request));
  HttpResponse response;
  response.status = 202;
  response.body = R"({"draining":true})";
  exchange->respond(app_->adopt(std::move(response), request));
  drain_();
}

SLUICE_INLINE HttpResponse AdminApp::refuse(int status, std::string what, const HttpRequest* head) {
  return app_->refuse(status, std::move(what), head);
}

SLUICE_INLINE std::optional<HttpResponse> AdminApp::refuse_head(const HttpRequest& head) {
  return app_->refuse(413, "this is the admin port; expected a request without a body", &head);
}

SLUICE_INLINE void PublicApp::handle(HttpRequest request, std::unique_ptr<Exchange> exchange) {
  if (!detail::shows_inside(request.path())) return app_->handle(std::move(request), std::move(exchange));
  exchange->respond(app_->refuse(404, "this path is at the admin port", &request));
}

SLUICE_INLINE HttpResponse PublicApp::refuse(int status, std::string what, const HttpRequest* head) {
  return app_->refuse(status, std::move(what), head);
}

SLUICE_INLINE std::optional<HttpResponse> PublicApp::refuse_head(const HttpRequest& head) {
  return app_->refuse_head(head);
}

SLUICE_INLINE bool PublicApp::watches(const HttpRequest& head) const {
  return detail::is_probe(head.path()) && app_->watches(head);
}

} // namespace sluice

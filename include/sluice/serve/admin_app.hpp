// SPDX-License-Identifier: Apache-2.0
// AdminApp, PublicApp: one application behind two ports: one for operators, one for all clients.
#pragma once

#include "sluice/serve/http.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

namespace detail {

/// Paths that show the server's state, which clients need not see.
[[nodiscard]] inline bool shows_inside(std::string_view path) {
  constexpr std::array<std::string_view, 4> paths{"/metrics", "/live", "/live/state", "/whatif"};
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}
[[nodiscard]] inline bool is_probe(std::string_view path) {
  constexpr std::array<std::string_view, 3> paths{"/health", "/ready", "/ping"};
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

} // namespace detail

/// Serves the probes, the metrics and the live page of `app`, and `POST /drain`, without keys: the port is for trusted
/// networks.
class AdminApp final : public HttpApp {
 public:
  /// `drain` is called on the application's thread.
  AdminApp(HttpApp& app, std::function<void()> drain) : app_(&app), drain_(std::move(drain)) {}

  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override {
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
  [[nodiscard]] HttpResponse refuse(int status, std::string what, const HttpRequest* head) override {
    return app_->refuse(status, std::move(what), head);
  }
  [[nodiscard]] std::optional<HttpResponse> refuse_head(const HttpRequest& head) override {
    return app_->refuse(413, "this is the admin port; expected a request without a body", &head);
  }

 private:
  HttpApp* app_;
  std::function<void()> drain_;
};

/// Serves `app` without the paths of the admin port.
class PublicApp final : public HttpApp {
 public:
  explicit PublicApp(HttpApp& app) : app_(&app) {}

  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override {
    if (!detail::shows_inside(request.path())) return app_->handle(std::move(request), std::move(exchange));
    exchange->respond(app_->refuse(404, "this path is at the admin port", &request));
  }
  [[nodiscard]] HttpResponse refuse(int status, std::string what, const HttpRequest* head) override {
    return app_->refuse(status, std::move(what), head);
  }
  [[nodiscard]] std::optional<HttpResponse> refuse_head(const HttpRequest& head) override {
    return app_->refuse_head(head);
  }
  [[nodiscard]] bool watches(const HttpRequest& head) const override {
    return detail::is_probe(head.path()) && app_->watches(head);
  }

 private:
  HttpApp* app_;
};

} // namespace sluice

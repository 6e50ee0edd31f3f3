// SPDX-License-Identifier: Apache-2.0
// AdminApp, PublicApp: one application behind two ports: one for operators, one for all clients.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/http.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace sluice {

/// Serves the probes, the metrics and the live page of `app`, and `POST /drain`, without keys: the port is for trusted
/// networks.
class AdminApp final : public HttpApp {
 public:
  /// `drain` is called on the application's thread.
  AdminApp(HttpApp& app, std::function<void()> drain) : app_(&app), drain_(std::move(drain)) {}

  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override;
  [[nodiscard]] HttpResponse refuse(int status, std::string what, const HttpRequest* head) override;
  [[nodiscard]] std::optional<HttpResponse> refuse_head(const HttpRequest& head) override;

 private:
  HttpApp* app_;
  std::function<void()> drain_;
};

/// Serves `app` without the paths of the admin port.
class PublicApp final : public HttpApp {
 public:
  explicit PublicApp(HttpApp& app) : app_(&app) {}

  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override;
  [[nodiscard]] HttpResponse refuse(int status, std::string what, const HttpRequest* head) override;
  [[nodiscard]] std::optional<HttpResponse> refuse_head(const HttpRequest& head) override;
  [[nodiscard]] bool watches(const HttpRequest& head) const override;

 private:
  HttpApp* app_;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/admin_app.inl.hpp"
#endif

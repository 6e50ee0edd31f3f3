// SPDX-License-Identifier: Apache-2.0
// Cors: the headers that let pages of another origin use the server from a browser.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/http.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// Allows pages from one origin, or from all. Every response passes through here, including the transport's own errors:
/// without these headers a browser reports an error to the page as a network failure.
class Cors {
 public:
  /// `origin`: as a browser sends it, or *. If empty, no page is allowed and no header is added.
  explicit Cors(std::string origin) : origin_(std::move(origin)) {}

  [[nodiscard]] bool allowed() const { return !origin_.empty(); }

  /// Returns the response with the headers added.
  [[nodiscard]] HttpResponse open(HttpResponse response) const;
  /// Returns an exchange that adds the headers to its response.
  [[nodiscard]] std::unique_ptr<Exchange> open(std::unique_ptr<Exchange> exchange) const;

  /// Returns the response to a browser's preflight request. Allows all headers that the request names: OpenAI's clients
  /// send a dozen of their own (x-stainless-*), and a list of them here would become outdated.
  [[nodiscard]] static HttpResponse preflight(const HttpRequest& request);

 private:
  class Opened final : public Exchange {
   public:
    Opened(const Cors& cors, std::unique_ptr<Exchange> exchange) : cors_(&cors), exchange_(std::move(exchange)) {}
    void respond(HttpResponse response) override { exchange_->respond(cors_->open(std::move(response))); }
    void begin(HttpResponse head) override { exchange_->begin(cors_->open(std::move(head))); }
    void send(std::string_view piece) override { exchange_->send(piece); }
    void finish() override { exchange_->finish(); }
    void on_gone(std::function<void()> gone) override { exchange_->on_gone(std::move(gone)); }

   private:
    const Cors* cors_;
    std::unique_ptr<Exchange> exchange_;
  };

  /// Returns whether `text` is a list of header names (RFC 9110: tokens) separated by commas, and short enough to
  /// repeat.
  static bool names_headers(std::string_view text);

  std::string origin_;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/cors.inl.hpp"
#endif

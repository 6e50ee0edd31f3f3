// SPDX-License-Identifier: Apache-2.0
// Cors: the headers by which a browser lets a page of another origin ask the server and read what it answers.
#pragma once

#include "sluice/serve/http.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// Pages of one origin, or of all, may ask. Every answer of the server goes through here, also those that a transport
/// makes of what it could not read: a page that may not read an error is told of a failed network instead.
class Cors {
 public:
  /// `origin`: as a browser sends it, or *; empty: no page may ask, and nothing is added to any answer.
  explicit Cors(std::string origin) : origin_(std::move(origin)) {}

  [[nodiscard]] bool allowed() const { return !origin_.empty(); }

  /// The same response, for pages too.
  [[nodiscard]] HttpResponse open(HttpResponse response) const {
    if (!allowed()) return response;
    response.headers.add("Access-Control-Allow-Origin", origin_);
    response.headers.add("Access-Control-Expose-Headers", "x-sluice-forecast, retry-after, retry-after-ms");
    return response;
  }
  /// The same exchange: what is answered through it, whole or in pieces, is for pages too.
  [[nodiscard]] std::unique_ptr<Exchange> open(std::unique_ptr<Exchange> exchange) const {
    if (!allowed()) return exchange;
    return std::make_unique<Opened>(*this, std::move(exchange));
  }

  /// The answer to a browser that asks before a page's request is sent. It may have whatever headers it wants: the
  /// clients of OpenAI send a dozen of their own (x-stainless-*), and a list of them here would age.
  [[nodiscard]] static HttpResponse preflight(const HttpRequest& request) {
    HttpResponse response;
    response.status = 204;
    response.type.clear();
    response.headers.add("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    const std::string_view wanted = request.headers.find("Access-Control-Request-Headers");
    response.headers.add("Access-Control-Allow-Headers",
                         names_headers(wanted)
                             ? std::string{wanted}
                             : "authorization, content-type, traceparent, x-slo-ttft-ms, x-slo-tbt-ms");
    response.headers.add("Access-Control-Max-Age", "86400");
    return response;
  }

 private:
  /// What is answered through it is opened on its way.
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

  /// Whether these are names of headers (RFC 9110: tokens) with commas between them, and not too many to say again.
  static bool names_headers(std::string_view text) {
    constexpr std::size_t most = 4096;
    const auto may_be = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view{"!#$%&'*+-.^_`|~, "}.find(c) != std::string_view::npos;
    };
    return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), may_be);
  }

  std::string origin_;
};

} // namespace sluice

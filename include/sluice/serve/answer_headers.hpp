// SPDX-License-Identifier: Apache-2.0
// AnswerHeaders: the headers of every response: the request's id and the date.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/http.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// Formats a time as HTTP headers do (RFC 9110, 5.6.7): "Sun, 06 Nov 1994 08:49:37 GMT". Returns an empty string for
/// years above 9999.
[[nodiscard]] std::string http_date(std::int64_t seconds_since_1970);

/// Returns whether `text` can be a request's id: 1 to 128 visible ASCII characters.
[[nodiscard]] bool is_request_id(std::string_view text);

/// Adds `x-request-id` and `Date` to responses. OpenAI's clients show the id of an error's response.
class AnswerHeaders {
 public:
  /// `now_s`: seconds since 1970.
  explicit AnswerHeaders(std::function<std::int64_t()> now_s) : now_s_(std::move(now_s)) {}

  [[nodiscard]] HttpResponse with(HttpResponse response, std::string request_id) const;
  /// Returns an exchange that adds these headers to its response.
  [[nodiscard]] std::unique_ptr<Exchange> with(std::unique_ptr<Exchange> exchange, std::string request_id) const;

 private:
  class Headed final : public Exchange {
   public:
    Headed(const AnswerHeaders& headers, std::unique_ptr<Exchange> exchange, std::string id);
    void respond(HttpResponse response) override { exchange_->respond(headers_->with(std::move(response), id_)); }
    void begin(HttpResponse head) override { exchange_->begin(headers_->with(std::move(head), id_)); }
    void send(std::string_view piece) override { exchange_->send(piece); }
    void finish() override { exchange_->finish(); }
    void on_gone(std::function<void()> gone) override { exchange_->on_gone(std::move(gone)); }

   private:
    const AnswerHeaders* headers_;
    std::unique_ptr<Exchange> exchange_;
    std::string id_;
  };

  std::function<std::int64_t()> now_s_;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/answer_headers.inl.hpp"
#endif

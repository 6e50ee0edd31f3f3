// SPDX-License-Identifier: Apache-2.0
// AnswerHeaders: the headers of every response: the request's id and the date.
#pragma once

#include "sluice/serve/http.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// Formats a time as HTTP headers do (RFC 9110, 5.6.7): "Sun, 06 Nov 1994 08:49:37 GMT". Returns an empty string for
/// years above 9999.
[[nodiscard]] inline std::string http_date(std::int64_t seconds_since_1970) {
  static constexpr const char* days[]{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* months[]{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t when{seconds_since_1970};
  std::tm utc{};
  if (gmtime_r(&when, &utc) == nullptr || utc.tm_year > 9999 - 1900 || utc.tm_year < 0) return {};
  char text[64];
  std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[utc.tm_wday], utc.tm_mday,
                months[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
  return text;
}

/// Returns whether `text` can be a request's id: 1 to 128 visible ASCII characters.
[[nodiscard]] inline bool is_request_id(std::string_view text) {
  constexpr std::size_t longest = 128;
  return !text.empty() && text.size() <= longest &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

/// Adds `x-request-id` and `Date` to responses. OpenAI's clients show the id of an error's response.
class AnswerHeaders {
 public:
  /// `now_s`: seconds since 1970.
  explicit AnswerHeaders(std::function<std::int64_t()> now_s) : now_s_(std::move(now_s)) {}

  [[nodiscard]] HttpResponse with(HttpResponse response, std::string request_id) const {
    response.headers.add("x-request-id", std::move(request_id));
    response.headers.add("Date", http_date(now_s_()));
    return response;
  }
  /// Returns an exchange that adds these headers to its response.
  [[nodiscard]] std::unique_ptr<Exchange> with(std::unique_ptr<Exchange> exchange, std::string request_id) const {
    return std::make_unique<Headed>(*this, std::move(exchange), std::move(request_id));
  }

 private:
  class Headed final : public Exchange {
   public:
    Headed(const AnswerHeaders& headers, std::unique_ptr<Exchange> exchange, std::string id)
        : headers_(&headers), exchange_(std::move(exchange)), id_(std::move(id)) {}
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

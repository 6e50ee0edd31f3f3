// SPDX-License-Identifier: Apache-2.0
// AnswerHeaders: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/answer_headers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <ctime>

namespace sluice {

SLUICE_SERVER_INLINE std::string http_date(std::int64_t seconds_since_1970) {
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

SLUICE_SERVER_INLINE bool is_request_id(std::string_view text) {
  constexpr std::size_t longest = 128;
  return !text.empty() && text.size() <= longest &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

SLUICE_SERVER_INLINE HttpResponse AnswerHeaders::with(HttpResponse response, std::string request_id) const {
  response.headers.add("x-request-id", std::move(request_id));
  response.headers.add("Date", http_date(now_s_()));
  return response;
}

SLUICE_SERVER_INLINE std::unique_ptr<Exchange> AnswerHeaders::with(std::unique_ptr<Exchange> exchange,
                                                                   std::string request_id) const {
  return std::make_unique<Headed>(*this, std::move(exchange), std::move(request_id));
}

SLUICE_SERVER_INLINE AnswerHeaders::Headed::Headed(const AnswerHeaders& headers, std::unique_ptr<Exchange> exchange,
                                                   std::string id)
    : headers_(&headers), exchange_(std::move(exchange)), id_(std::move(id)) {}

} // namespace sluice

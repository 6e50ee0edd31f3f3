// SPDX-License-Identifier: Apache-2.0
// answers: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/serve/answers.hpp"

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

SLUICE_SERVER_INLINE HttpResponse Cors::open(HttpResponse response) const {
  if (!allowed()) return response;
  response.headers.add("Access-Control-Allow-Origin", origin_);
  response.headers.add("Access-Control-Expose-Headers",
                       "x-sluice-forecast, x-sluice-ttft-ms, x-sluice-cached-tokens, x-sluice-slo, "
                       "x-sluice-slo-late-ms, x-request-id, retry-after, retry-after-ms, "
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

SLUICE_SERVER_INLINE void AskedOf::write(JsonWriter& json) const {
  for (const auto& [name, value] : {std::pair<const char*, const std::string&>{"request_id", request_id},
                                    {"key", key},
                                    {"session", session},
                                    {"client", client},
                                    {"traceparent", traceparent}})
    if (!value.empty()) json.key(name).value(excerpt(value, longest));
}

SLUICE_SERVER_INLINE AnswerLog::AnswerLog(std::function<void(std::string)> log, std::function<std::string()> stamp,
                                          std::function<double()> clock)
    : log_(std::move(log)), stamp_(std::move(stamp)), clock_(std::move(clock)) {}

SLUICE_SERVER_INLINE void AnswerLog::answered(const AskedOf& asked, int status, std::string_view why) {
  count(status, asked);
  if (asked.begun >= 0) took(clock_() - asked.begun, asked);
  if (!log_ || (asked.probe && status < 400)) return;
  std::string line;
  JsonWriter json(line);
  json.begin_object().key("event").value("answer").key("time").value(stamp_());
  if (!asked.method.empty()) json.key("method").value(excerpt(asked.method, AskedOf::longest));
  if (!asked.path.empty()) json.key("path").value(excerpt(asked.path, AskedOf::longest));
  json.key("status").value(status);
  if (!why.empty()) json.key("error").value(why);
  asked.write(json);
  if (!asked.method.empty()) json.key("seconds").value(clock_() - asked.begun);
  json.end_object();
  log_(std::move(line));
}

SLUICE_SERVER_INLINE void AnswerLog::count(int status, const AskedOf& asked) {
  ++counts_[{asked.route, status}];
  ++groups_[{asked.route, known_method(asked.method)}]
        .by_class[static_cast<std::size_t>(std::clamp(status / 100, 0, 5))];
}

SLUICE_SERVER_INLINE void AnswerLog::took(double seconds, const AskedOf& asked) {
  groups_[{asked.route, known_method(asked.method)}].seconds.observe(std::max(0.0, seconds));
}

SLUICE_SERVER_INLINE std::string_view AnswerLog::known_method(std::string_view method) {
  for (const std::string_view known : {"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"})
    if (method == known) return known;
  return "other";
}

SLUICE_SERVER_INLINE void AnswerLog::write(PrometheusWriter& to) const {
  for (const auto& [key, group] : groups_)
    for (std::size_t of = 0; of < group.by_class.size(); ++of)
      if (group.by_class[of] > 0)
        to.counter("http_requests_total", "Total number of requests by method, status and handler.",
                   static_cast<double>(group.by_class[of]),
                   {{"handler", key.first}, {"method", key.second}, {"status", std::to_string(of) + "xx"}});
  for (const auto& [key, group] : groups_)
    to.histogram("http_request_duration_seconds", "Latency with only few buckets by handler.", group.seconds,
                 {{"handler", key.first}, {"method", key.second}});
  for (const auto& [what, count] : counts_)
    to.counter("sluice:answers_total", "Answers by status and route.", static_cast<double>(count),
               {{"code", std::to_string(what.second)}, {"route", what.first}});
}

SLUICE_SERVER_INLINE std::unique_ptr<Exchange> AnswerLog::noting(AskedOf asked, std::unique_ptr<Exchange> exchange) {
  return std::make_unique<Noting>(*this, std::move(asked), std::move(exchange));
}

SLUICE_SERVER_INLINE AnswerLog::Noting::Noting(AnswerLog& log, AskedOf asked, std::unique_ptr<Exchange> exchange)
    : log_(&log), asked_(std::move(asked)), exchange_(std::move(exchange)) {}

SLUICE_SERVER_INLINE void AnswerLog::Noting::respond(HttpResponse response) {
  note(response);
  exchange_->respond(std::move(response));
}

SLUICE_SERVER_INLINE void AnswerLog::Noting::begin(HttpResponse head) {
  note(head);
  exchange_->begin(std::move(head));
}

SLUICE_SERVER_INLINE void AnswerLog::Noting::on_gone(std::function<void()> gone) {
  kept_ = true;
  exchange_->on_gone([this, gone = std::move(gone)] { // the exchange calls this function, so it still exists
    if (!std::exchange(noted_, true)) log_->count(client_left, asked_);
    gone();
  });
}

SLUICE_SERVER_INLINE void AnswerLog::Noting::note(const HttpResponse& response) {
  if (std::exchange(noted_, true)) return;
  if (kept_)
    log_->count(response.status, asked_);
  else
    log_->answered(asked_, response.status, response.why);
}

} // namespace sluice

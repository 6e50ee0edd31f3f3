// SPDX-License-Identifier: Apache-2.0
// AnswerLog: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/serve/answer_log.hpp"

namespace sluice {

SLUICE_SERVER_INLINE void AskedOf::write(JsonWriter& json) const {
  for (const auto& [name, value] : {std::pair<const char*, const std::string&>{"request_id", request_id},
                                    {"key", key},
                                    {"session", session},
                                    {"traceparent", traceparent}})
    if (!value.empty()) json.key(name).value(excerpt(value, longest));
}

SLUICE_SERVER_INLINE AnswerLog::AnswerLog(std::function<void(std::string)> log, std::function<std::string()> stamp,
                                          std::function<double()> clock)
    : log_(std::move(log)), stamp_(std::move(stamp)), clock_(std::move(clock)) {}

SLUICE_SERVER_INLINE void AnswerLog::answered(const AskedOf& asked, int status, std::string_view why) {
  count(status, asked.route);
  if (!log_) return;
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

SLUICE_SERVER_INLINE void AnswerLog::write(PrometheusWriter& to) const {
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
    if (!std::exchange(noted_, true)) log_->count(client_left, asked_.route);
    gone();
  });
}

SLUICE_SERVER_INLINE void AnswerLog::Noting::note(const HttpResponse& response) {
  if (std::exchange(noted_, true)) return;
  if (kept_)
    log_->count(response.status, asked_.route);
  else
    log_->answered(asked_, response.status, response.why);
}

} // namespace sluice

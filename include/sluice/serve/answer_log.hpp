// SPDX-License-Identifier: Apache-2.0
// AnswerLog: counts every answer by status and route, and logs a line for each.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/prometheus.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// The request's fields in the log line of its answer.
struct AskedOf {
  std::string_view route = "other"; ///< from a fixed set of labels; must outlive the log
  std::string method, path;         ///< empty if the request could not be read
  std::string request_id;           ///< x-request-id; may be empty
  std::string key;                  ///< the name of its API key; may be empty
  std::string session;              ///< x-session-id; may be empty
  std::string traceparent;          ///< may be empty
  double begun = 0;                 ///< when the request arrived, in seconds of the log's clock

  /// Writes the fields that are not empty.
  void write(JsonWriter& json) const {
    for (const auto& [name, value] : {std::pair<const char*, const std::string&>{"request_id", request_id},
                                      {"key", key},
                                      {"session", session},
                                      {"traceparent", traceparent}})
      if (!value.empty()) json.key(name).value(excerpt(value, longest));
  }
  static constexpr std::size_t longest = 200; ///< most characters of a text that a client chose
};

class AnswerLog {
 public:
  /// nginx's status for a client that disconnected before its response began.
  static constexpr int client_left = 499;

  /// `log` receives one JSON object per line, and may be empty. `stamp` returns the wall clock as text, `clock` returns
  /// seconds.
  AnswerLog(std::function<void(std::string)> log, std::function<std::string()> stamp, std::function<double()> clock)
      : log_(std::move(log)), stamp_(std::move(stamp)), clock_(std::move(clock)) {}

  void count(int status, std::string_view route) { ++counts_[{route, status}]; }
  /// `why`: the reason for a refusal.
  void answered(const AskedOf& asked, int status, std::string_view why) {
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
  void write(PrometheusWriter& to) const {
    for (const auto& [what, count] : counts_)
      to.counter("sluice:answers_total", "Answers by status and route.", static_cast<double>(count),
                 {{"code", std::to_string(what.second)}, {"route", what.first}});
  }

  /// Returns the same exchange, whose answer will be counted and logged. An application that calls `on_gone` keeps the
  /// exchange for a long time, and must log its end itself.
  [[nodiscard]] std::unique_ptr<Exchange> noting(AskedOf asked, std::unique_ptr<Exchange> exchange) {
    return std::make_unique<Noting>(*this, std::move(asked), std::move(exchange));
  }

 private:
  class Noting final : public Exchange {
   public:
    Noting(AnswerLog& log, AskedOf asked, std::unique_ptr<Exchange> exchange)
        : log_(&log), asked_(std::move(asked)), exchange_(std::move(exchange)) {}
    void respond(HttpResponse response) override {
      note(response);
      exchange_->respond(std::move(response));
    }
    void begin(HttpResponse head) override {
      note(head);
      exchange_->begin(std::move(head));
    }
    void send(std::string_view piece) override { exchange_->send(piece); }
    void finish() override { exchange_->finish(); }
    void on_gone(std::function<void()> gone) override {
      kept_ = true;
      exchange_->on_gone([this, gone = std::move(gone)] { // the exchange calls this function, so it still exists
        if (!std::exchange(noted_, true)) log_->count(client_left, asked_.route);
        gone();
      });
    }

   private:
    void note(const HttpResponse& response) {
      if (std::exchange(noted_, true)) return;
      if (kept_)
        log_->count(response.status, asked_.route);
      else
        log_->answered(asked_, response.status, response.why);
    }

    AnswerLog* log_;
    AskedOf asked_;
    std::unique_ptr<Exchange> exchange_;
    bool noted_ = false, kept_ = false;
  };

  std::function<void(std::string)> log_;
  std::function<std::string()> stamp_;
  std::function<double()> clock_;
  std::map<std::pair<std::string_view, int>, std::int64_t> counts_;
};

} // namespace sluice

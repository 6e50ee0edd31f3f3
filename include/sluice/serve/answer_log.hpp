// SPDX-License-Identifier: Apache-2.0
// AnswerLog: counts every answer by status and route, and logs a line for each.
#pragma once

#include "sluice/core/compiled.hpp"
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
  void write(JsonWriter& json) const;
  static constexpr std::size_t longest = 200; ///< most characters of a text that a client chose
};

class AnswerLog {
 public:
  /// nginx's status for a client that disconnected before its response began.
  static constexpr int client_left = 499;

  /// `log` receives one JSON object per line, and may be empty. `stamp` returns the wall clock as text, `clock` returns
  /// seconds.
  AnswerLog(std::function<void(std::string)> log, std::function<std::string()> stamp, std::function<double()> clock);

  void count(int status, std::string_view route) { ++counts_[{route, status}]; }
  /// `why`: the reason for a refusal.
  void answered(const AskedOf& asked, int status, std::string_view why);
  void write(PrometheusWriter& to) const;

  /// Returns the same exchange, whose answer will be counted and logged. An application that calls `on_gone` keeps the
  /// exchange for a long time, and must log its end itself.
  [[nodiscard]] std::unique_ptr<Exchange> noting(AskedOf asked, std::unique_ptr<Exchange> exchange);

 private:
  class Noting final : public Exchange {
   public:
    Noting(AnswerLog& log, AskedOf asked, std::unique_ptr<Exchange> exchange);
    void respond(HttpResponse response) override;
    void begin(HttpResponse head) override;
    void send(std::string_view piece) override { exchange_->send(piece); }
    void finish() override { exchange_->finish(); }
    void on_gone(std::function<void()> gone) override;

   private:
    void note(const HttpResponse& response);

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

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/answer_log.inl.hpp"
#endif

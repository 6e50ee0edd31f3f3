// SPDX-License-Identifier: Apache-2.0
// What every answer gets: the request's id and the date, the headers for pages of another origin, a line in the log.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/prometheus.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

// AnswerHeaders: the headers of every response: the request's id and the date.

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
    void finish(const HttpHeaders& trailers) override { exchange_->finish(trailers); }
    void on_gone(std::function<void()> gone) override { exchange_->on_gone(std::move(gone)); }

   private:
    const AnswerHeaders* headers_;
    std::unique_ptr<Exchange> exchange_;
    std::string id_;
  };

  std::function<std::int64_t()> now_s_;
};

// Cors: the headers that let pages of another origin use the server from a browser.

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
    void finish(const HttpHeaders& trailers) override { exchange_->finish(trailers); }
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

// AnswerLog: counts every answer by status and route, and logs a line for each.

namespace detail {
/// The bounds of prometheus-fastapi-instrumentator, which vLLM's http_request_duration_seconds has.
inline constexpr std::array<double, 3> answer_bounds{0.1, 0.5, 1.0};
} // namespace detail

/// The request's fields in the log line of its answer.
struct AskedOf {
  std::string_view route = "other"; ///< from a fixed set of labels; must outlive the log
  std::string method, path;         ///< empty if the request could not be read
  std::string request_id;           ///< x-request-id; may be empty
  std::string key;                  ///< the name of its API key; may be empty
  std::string session;              ///< x-session-id; may be empty
  std::string client;               ///< the address of the connection; may be empty
  std::string traceparent;          ///< may be empty
  bool probe = false;               ///< of a monitor, which asks every few seconds: logged only if it is refused
  double begun = -1;                ///< when the request arrived, in seconds of the log's clock; below 0: unknown

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

  /// Counts an answer whose head is sent.
  void count(int status, const AskedOf& asked);
  /// Counts how long a whole answer took, in seconds. An application calls it for an exchange that it keeps.
  void took(double seconds, const AskedOf& asked);
  /// `why`: the reason for a refusal.
  void answered(const AskedOf& asked, int status, std::string_view why);
  void write(PrometheusWriter& to) const;

  /// Returns the same exchange, whose answer will be counted and logged. An application that calls `on_gone` keeps the
  /// exchange for a long time, and must log its end itself.
  [[nodiscard]] std::unique_ptr<Exchange> noting(AskedOf asked, std::unique_ptr<Exchange> exchange);

 private:
  /// A label's text that outlives the request: clients may send any method.
  [[nodiscard]] static std::string_view known_method(std::string_view method);

  class Noting final : public Exchange {
   public:
    Noting(AnswerLog& log, AskedOf asked, std::unique_ptr<Exchange> exchange);
    void respond(HttpResponse response) override;
    void begin(HttpResponse head) override;
    void send(std::string_view piece) override { exchange_->send(piece); }
    void finish(const HttpHeaders& trailers) override { exchange_->finish(trailers); }
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
  /// By route and method, as vLLM's dashboards ask for: http_requests_total and http_request_duration_seconds.
  struct Group {
    std::array<std::int64_t, 6> by_class{}; ///< of statuses: 200 to 299 are 2xx
    PrometheusHistogram seconds{detail::answer_bounds};
  };
  std::map<std::pair<std::string_view, std::string_view>, Group> groups_;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/answers.inl.hpp"
#endif

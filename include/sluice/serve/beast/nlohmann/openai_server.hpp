// SPDX-License-Identifier: Apache-2.0
// OpenAiServer: the OpenAI API over HTTP in front of any GenerationEngine.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/serve/beast/http_server.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"
#include "sluice/serve/pacer.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/serve/what_if.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

struct OpenAiServerConfig {
  OpenAiSetup api;
  /// Systems that replay the requests of the last ten minutes for /whatif. The first one is the serving system. If
  /// empty, there is no /whatif.
  std::vector<WhatIfSystem> what_if{};
  HttpAddress address{};
  /// A second port for metrics, the live page, probes and `POST /drain`, in plain HTTP and without keys. The first port
  /// then serves neither metrics nor the live page. Without a value there is one port.
  std::optional<HttpAddress> admin{};
  HttpConnection connection{}; ///< plain HTTP; or `*Tls::make("cert.pem", "key.pem")`
  HttpLimits limits{};
  double drain_s = 30; ///< most seconds for running requests to finish after TERM; at most `longest_drain`
  /// Seconds for which new connections are still accepted after TERM, so that a router sees /ready's 503 and a scraper
  /// sees the drain; at most `longest_drain`. INT, usually from a keyboard, has no delay.
  double drain_delay_s = 0;
  bool signals = true; ///< `run` handles TERM and INT: the first drains, the second ends the program
  /// With `signals`, called at each HUP on the server's thread, for example to reload keys and certificates. If empty,
  /// HUP has its default effect.
  std::function<void()> reload{};
  std::function<void(std::size_t under_way)> draining{}; ///< called when a signal starts the drain; may be empty
  /// Called on the connections' thread when `run` begins, and again after the number of seconds that it returns: for a
  /// supervisor that monitors whether requests are served. May be empty.
  std::function<double(const OpenAiApp&)> beat{};
};

/// Lifecycle: `listen`; construct an engine that notifies `listener`; `attach` it; `run` until TERM, `drain` or `stop`.
class OpenAiServer {
 public:
  /// The longest drain in seconds: a day. Clocks count nanoseconds in 64 bits and could overflow with a longer drain.
  static constexpr double longest_drain = 86'400;

  explicit OpenAiServer(OpenAiServerConfig config)
      : config_(std::move(config)), http_(config_.limits, config_.connection), pacer_(http_, config_.api.clock) {
    config_.api.transport_metrics = [this](PrometheusWriter& to) { write_metrics(to); };
    if (config_.what_if.empty()) return;
    what_if_.emplace(served_, std::move(config_.what_if));
    config_.api.what_if = [this] { return what_if_->json(); };
  }
  OpenAiServer(const OpenAiServer&) = delete;
  OpenAiServer& operator=(const OpenAiServer&) = delete;

  /// Listens on the configured addresses. Errors: an address does not exist, or the port is in use or not allowed.
  [[nodiscard]] Status listen() {
    if (config_.admin)
      if (Status listening = http_.listen_admin(*config_.admin); !listening) return listening;
    return http_.listen(config_.address);
  }
  /// Returns the engine's listener: holds tokens until they are due, and then passes them to clients.
  [[nodiscard]] GenerationListener& listener() { return pacer_; }
  /// Collects finished requests for /whatif; null if there is no /whatif.
  [[nodiscard]] ServedListener* served() { return what_if_ ? &served_ : nullptr; }
  /// Sends clients' requests to `engine`, which must outlive `run`.
  void attach(GenerationEngine& engine) {
    app_.emplace(std::move(config_.api), http_, engine);
    pacer_.tell(*app_);
  }
  /// Serves on this thread until the server is drained or stopped.
  void run() {
    SLUICE_ASSERT(app_.has_value(), "an engine, attached before the run");
    if (config_.signals) drain_on_signal();
    if (config_.beat) beat();
    if (config_.signals && config_.reload) http_.on_each_signal(SIGHUP, config_.reload);
    if (!config_.admin) return http_.run(*app_);
    PublicApp outside(*app_);
    AdminApp inside(*app_, [this] { drain_now(config_.drain_delay_s); });
    http_.run(outside, &inside);
  }
  /// Ends `run` when all running requests have finished, or after `drain_s`, but not before `drain_delay_s`. May be
  /// called from any thread.
  void drain() {
    http_.post([this] { drain_now(config_.drain_delay_s); });
  }
  /// Ends `run` now. May be called from any thread.
  void stop() {
    http_.post([this] { http_.stop(); });
  }

  [[nodiscard]] std::uint16_t port() const { return http_.port(); }
  /// Returns the address it listens on: `http://127.0.0.1:8080`.
  [[nodiscard]] std::string url() const { return url_of(http_.scheme(), config_.address.host, port()); }
  /// Returns the address of the admin port; empty if there is none.
  [[nodiscard]] std::string admin_url() const {
    return config_.admin ? url_of("http", config_.admin->host, http_.admin_port()) : std::string{};
  }
  /// Returns why the engine stopped; empty while it runs. Call after `run`.
  [[nodiscard]] const std::string& stopped_by() const { return app_->stopped_by(); }

 private:
  static std::string url_of(std::string_view scheme, const std::string& host, std::uint16_t port) {
    return std::string{scheme} + "://" + (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" +
           std::to_string(port);
  }
  void write_metrics(PrometheusWriter& to) const {
    const HttpFigures now = http_.figures();
    to.gauge("sluice:connections", "Open connections.", static_cast<double>(now.connections));
    to.gauge("sluice:connections_in_reserve", "Open connections that are kept for probes.",
             static_cast<double>(now.in_reserve));
    to.counter("sluice:connections_turned_away_total", "Connections beyond the most that are allowed.",
               static_cast<double>(now.turned_away));
    to.gauge("sluice:body_bytes", "Bytes of bodies that have arrived and were not read.",
             static_cast<double>(now.body_bytes));
    to.counter("sluice:bodies_refused_total", "Requests refused because they exceed the memory for all bodies.",
               static_cast<double>(now.bodies_refused));
  }
  /// Seconds for clients to receive the end of a stream that was cut.
  static constexpr double last_words = 2;

  void beat() {
    http_.after(config_.beat(*app_), [this] { beat(); });
  }
  void drain_now(double delay) {
    if (std::exchange(draining_, true)) return;
    app_->drain();
    const double bound = std::clamp(config_.drain_s, 0.0, longest_drain);
    delay = std::clamp(delay, 0.0, longest_drain);
    http_.after(bound, [this] { app_->cut("the server has ended, and did not wait longer for this answer"); });
    const std::chrono::milliseconds rest(static_cast<std::int64_t>((std::max(0.0, bound - delay) + last_words) * 1000));
    if (delay > 0)
      http_.after(delay, [this, rest] { http_.drain(rest); });
    else
      http_.drain(rest);
  }
  /// The first TERM or INT drains. The second has its default effect and ends the program at once, even while its
  /// threads work. (Rejected: the second stops the server, and so `run`. The engine's current step would have to finish
  /// first, and the exit status would be that of a drain without lost requests.)
  void drain_on_signal() {
    http_.on_signal({SIGTERM, SIGINT}, [this](int number) {
      if (draining_) return http_.stop(); // `drain` was called earlier
      if (config_.draining) config_.draining(app_->under_way());
      drain_now(number == SIGINT ? 0 : config_.drain_delay_s);
    });
  }

  OpenAiServerConfig config_;
  HttpServer http_;
  Pacer pacer_;
  ServedRequests served_;
  std::optional<WhatIfThread> what_if_;
  bool draining_ = false;
  std::optional<OpenAiApp> app_; ///< owns exchanges, which must end before `http_`
};

} // namespace sluice

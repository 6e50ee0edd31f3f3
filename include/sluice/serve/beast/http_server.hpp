// SPDX-License-Identifier: Apache-2.0
// HttpServer: HTTP/1.1 for an HttpApp, with thousands of connections on one thread.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/serve/beast/http_connection.hpp"
#include "sluice/serve/http.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>

namespace sluice {

/// Everything runs on the thread that calls `run`; other threads may call only `post`.
///
/// Lifecycle: `listen`, `run`. `drain` accepts no new connections, lets running requests finish (for at most `bound`)
/// and ends `run`; `stop` ends `run` at once.
///
/// Its members are behind a pointer, so that programs which only start a server do not compile Asio and Beast.
class HttpServer final : public HttpTransport {
 public:
  explicit HttpServer(HttpLimits limits = {}, HttpConnection connection = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Listens on the address. Errors: the address does not exist, or the port is in use or not allowed.
  [[nodiscard]] Status listen(const HttpAddress& address);
  /// Listens on a second port, in plain HTTP, where `run` serves another application. Its connections count towards no
  /// client limit, and a drain leaves it open.
  [[nodiscard]] Status listen_admin(const HttpAddress& address);
  [[nodiscard]] std::uint16_t admin_port() const;
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string_view scheme() const;

  /// Serves `app` until `stop` or the end of a drain, and serves `admin` on the second port if there is one.
  void run(HttpApp& app, HttpApp* admin = nullptr);

  /// Runs `work` on the application's thread. May be called from any thread, and from a signal handler that asio calls.
  void post(std::function<void()> work) override;
  void after(double seconds, std::function<void()> work) override;
  /// Calls `then` once, at the first of these signals, and then restores their default effect. Call on the
  /// application's thread.
  void on_signal(std::initializer_list<int> numbers, std::function<void(int)> then);
  /// Calls `then` at each signal with this number. Call on the application's thread.
  void on_each_signal(int number, std::function<void()> then);

  /// Accepts no new connections, and ends `run` when all running requests have finished, or after `bound`. Call on the
  /// application's thread.
  void drain(std::chrono::milliseconds bound);
  /// Ends `run` now. Call on the application's thread.
  void stop();
  [[nodiscard]] bool draining() const;
  [[nodiscard]] std::size_t connections() const;
  /// Call on the application's thread.
  [[nodiscard]] HttpFigures figures() const;

 private:
  std::unique_ptr<detail::HttpCore> core_;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/beast/http_server.inl.hpp"
#endif

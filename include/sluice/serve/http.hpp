// SPDX-License-Identifier: Apache-2.0
// HttpApp, Exchange, HttpTransport: the interface between an HTTP application and its transport.
#pragma once

#include "sluice/core/compiled.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Names and values in the order in which they were sent. Names compare case-insensitively.
class HttpHeaders {
 public:
  void add(std::string name, std::string value) { all_.emplace_back(std::move(name), std::move(value)); }
  /// Returns the value of the first header of that name, or empty; without such a header its `data()` is null.
  [[nodiscard]] std::string_view find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name).data() != nullptr; }
  [[nodiscard]] auto begin() const { return all_.begin(); }
  [[nodiscard]] auto end() const { return all_.end(); }

  [[nodiscard]] static bool same_name(std::string_view a, std::string_view b);

 private:
  static char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

  std::vector<std::pair<std::string, std::string>> all_;
};

struct HttpRequest {
  std::string method; ///< "GET"
  std::string target; ///< as sent: "/v1/models?x=1"
  HttpHeaders headers;
  std::string body;
  std::string client{}; ///< the address that sent it, for the log; may be empty

  /// Returns the target without its query, and without the scheme and host of an absolute form (RFC 9112, 3.2.2).
  [[nodiscard]] std::string_view path() const;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json"; ///< Content-Type; empty: none
  std::string body;
  HttpHeaders headers; ///< other than type and length
  bool close = false;  ///< close the connection after this response
  std::string why;     ///< for the log: what is wrong with the request; not sent
};

/// The response to one request, sent at once or in pieces. All functions are called on the application's thread.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  /// Responds with 500 if there was no response.
  virtual ~Exchange() = default;

  /// Sends the whole response.
  virtual void respond(HttpResponse response) = 0;
  /// Sends the response's head (its `body` is the first piece); `send` and `finish` follow.
  virtual void begin(HttpResponse head) = 0;
  /// Sends more of the body. The transport buffers unread bytes up to a limit. Beyond the limit it drops the client and
  /// behaves as if the client had disconnected.
  virtual void send(std::string_view piece) = 0;
  /// `trailers` follow the body where the client's version of HTTP has such fields (RFC 9110, 6.5): what is known at
  /// the end alone, and nobody needs to read.
  virtual void finish(const HttpHeaders& trailers) = 0;
  void finish() { finish(HttpHeaders{}); }

  /// Calls `gone` once if the client disconnects before the response ends, or is dropped because it does not read.
  /// Everything sent afterwards is discarded.
  virtual void on_gone(std::function<void()> gone) = 0;
};

/// Answers requests. All calls come from its transport's thread, one at a time.
class HttpApp {
 public:
  HttpApp() = default;
  HttpApp(const HttpApp&) = delete;
  HttpApp& operator=(const HttpApp&) = delete;
  virtual ~HttpApp() = default;

  /// Responds at once, or keeps the exchange and responds later. An exception ends the exchange: with 500, or with the
  /// connection if the response has begun.
  virtual void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) = 0;
  /// Returns the refusal if the head of a request alone justifies one. `head` has no body yet. Called before a body is
  /// read, so that a client without a key uses no memory. Changes no state; `handle` decides again.
  [[nodiscard]] virtual std::optional<HttpResponse> refuse_head(const HttpRequest& /*head*/) { return std::nullopt; }
  /// Returns whether the request monitors the server, as a probe does. The transport reserves connections for such
  /// requests.
  [[nodiscard]] virtual bool watches(const HttpRequest& /*head*/) const { return false; }
  /// Returns the response to bytes that are not a valid request, or to a request that is not passed to `handle`; `what`
  /// is one sentence for the client. `head`: the request without its body; null if it is not known.
  [[nodiscard]] virtual HttpResponse refuse(int status, std::string what, const HttpRequest* head) = 0;
  /// Returns another application's response to `request` with the headers of all responses of this one, and notes it as
  /// one of its own.
  [[nodiscard]] virtual HttpResponse adopt(HttpResponse response, const HttpRequest& /*request*/) { return response; }
};

/// Runs work on the application's thread. Work that throws is dropped, and the exchanges that it owned end.
class HttpTransport {
 public:
  HttpTransport() = default;
  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;
  virtual ~HttpTransport() = default;

  /// Runs `work` soon. May be called from any thread.
  virtual void post(std::function<void()> work) = 0;
  /// Runs `work` in `seconds`. Call on the application's thread only.
  virtual void after(double seconds, std::function<void()> work) = 0;
};

/// The address to listen on.
struct HttpAddress {
  std::string host = "127.0.0.1"; ///< a numeric address of this host
  std::uint16_t port = 8080;      ///< 0: any free port; `HttpServer::port` returns it
};

/// Limits of one client, and of all clients together.
struct HttpLimits {
  std::size_t max_header = std::size_t{16} << 10; ///< bytes of a request's head; beyond this: 431
  std::size_t max_body = std::size_t{8} << 20;    ///< bytes of a request's body; beyond this: 413
  /// Bytes of a response that a client may leave unread, in addition to the largest piece so far: for a request with
  /// many answers, one step may bring more than any limit to a client that reads everything. Beyond: it is dropped.
  std::size_t max_unread = std::size_t{256} << 10;
  /// Bytes of further requests that a client may send before its current response has ended. A client that sends more
  /// is dropped, and its current request is cancelled.
  std::size_t max_ahead = std::size_t{64} << 10;
  /// Bytes of all requests' bodies that have arrived and that the application has not taken yet. A request that would
  /// exceed the limit gets status 503. Must be at least `max_body`; otherwise the largest bodies would never be served.
  std::size_t max_bodies = std::size_t{64} << 20;
  int max_connections = 4096; ///< beyond this: 503, except for requests that monitor the server
  int max_per_address = 0;    ///< connections from one IPv4 address or IPv6 /64; 0: no limit. Beyond this: as above
  int reserved = 32;          ///< additional connections for requests that monitor the server; each serves one request
  std::chrono::milliseconds head_time{
      10'000}; ///< to receive a request's whole head; then the connection is closed, without a 408
  std::chrono::milliseconds reserved_time{2'000}; ///< the same limit for a connection of the reserve
  std::chrono::milliseconds body_time{60'000};    ///< to receive a request's body
  std::chrono::milliseconds idle_time{75'000};    ///< between requests of one connection
  std::chrono::milliseconds write_time{60'000};   ///< during which the client accepts no byte
};

/// A server's open connections, and the connections and requests that it has turned away since it started.
struct HttpFigures {
  std::size_t connections = 0;     ///< open, including those of the reserve
  std::size_t in_reserve = 0;      ///< those of `connections` that are in the reserve
  std::int64_t turned_away = 0;    ///< connections refused because the limit was reached
  std::size_t body_bytes = 0;      ///< bytes of bodies that have arrived and that the application has not read
  std::int64_t bodies_refused = 0; ///< requests refused because they exceeded the memory for all bodies
};

// AdminApp, PublicApp: one application behind two ports: one for operators, one for all clients.

/// Serves the probes, the metrics and the live page of `app`, and `POST /drain`, without keys: the port is for trusted
/// networks.
class AdminApp final : public HttpApp {
 public:
  /// `drain` is called on the application's thread.
  AdminApp(HttpApp& app, std::function<void()> drain) : app_(&app), drain_(std::move(drain)) {}

  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override;
  [[nodiscard]] HttpResponse refuse(int status, std::string what, const HttpRequest* head) override;
  [[nodiscard]] std::optional<HttpResponse> refuse_head(const HttpRequest& head) override;

 private:
  HttpApp* app_;
  std::function<void()> drain_;
};

/// Serves `app` without the paths of the admin port.
class PublicApp final : public HttpApp {
 public:
  explicit PublicApp(HttpApp& app) : app_(&app) {}

  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override;
  [[nodiscard]] HttpResponse refuse(int status, std::string what, const HttpRequest* head) override;
  [[nodiscard]] std::optional<HttpResponse> refuse_head(const HttpRequest& head) override;
  [[nodiscard]] bool watches(const HttpRequest& head) const override;

 private:
  HttpApp* app_;
};

namespace detail {

/// Returns whether a path shows the server's state, which clients need not see: it is at the admin port if there is
/// one.
[[nodiscard]] bool shows_inside(std::string_view path);

} // namespace detail

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/http.inl.hpp"
#endif

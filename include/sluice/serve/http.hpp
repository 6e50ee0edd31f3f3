// SPDX-License-Identifier: Apache-2.0
// HttpApp, Exchange, HttpTransport: the interface between an HTTP application and its transport.
#pragma once

#include <algorithm>
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
  [[nodiscard]] std::string_view find(std::string_view name) const {
    for (const auto& [key, value] : all_)
      if (same_name(key, name)) return value;
    return {};
  }
  [[nodiscard]] bool has(std::string_view name) const { return find(name).data() != nullptr; }
  [[nodiscard]] auto begin() const { return all_.begin(); }
  [[nodiscard]] auto end() const { return all_.end(); }

  [[nodiscard]] static bool same_name(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (lower(a[i]) != lower(b[i])) return false;
    return true;
  }

 private:
  static char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

  std::vector<std::pair<std::string, std::string>> all_;
};

struct HttpRequest {
  std::string method; ///< "GET"
  std::string target; ///< as sent: "/v1/models?x=1"
  HttpHeaders headers;
  std::string body;

  /// Returns the target without its query, and without the scheme and host of an absolute form (RFC 9112, 3.2.2).
  [[nodiscard]] std::string_view path() const {
    std::string_view rest = target;
    for (const std::string_view scheme : {"http://", "https://"}) {
      if (!HttpHeaders::same_name(rest.substr(0, scheme.size()), scheme)) continue;
      rest.remove_prefix(scheme.size());
      rest.remove_prefix(std::min(rest.find_first_of("/?"), rest.size()));
      break;
    }
    rest = rest.substr(0, rest.find('?'));
    return rest.empty() ? "/" : rest;
  }
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
  virtual void finish() = 0;

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

  /// Responds at once, or keeps the exchange and responds later.
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

/// Runs work on the application's thread.
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

} // namespace sluice

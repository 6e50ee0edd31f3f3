// SPDX-License-Identifier: Apache-2.0
// HttpApp and Exchange: what a server's application asks of whatever carries its requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Names and values in the order sent. Names compare without case.
class HttpHeaders {
 public:
  void add(std::string name, std::string value) { all_.emplace_back(std::move(name), std::move(value)); }
  /// The first of that name, or empty.
  [[nodiscard]] std::string_view find(std::string_view name) const {
    for (const auto& [key, value] : all_)
      if (same_name(key, name)) return value;
    return {};
  }
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

  /// The target without its query.
  [[nodiscard]] std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json"; ///< Content-Type; empty: none
  std::string body;
  HttpHeaders headers; ///< beside type and length
  bool close = false;  ///< the connection ends with this response
};

/// One request's answer, given at once or piece by piece. Every call is made on the application's thread.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  /// An exchange that was never answered is answered with 500.
  virtual ~Exchange() = default;

  /// The whole answer.
  virtual void respond(HttpResponse response) = 0;
  /// The answer's head (its `body` is the first piece); `send` and `finish` follow.
  virtual void begin(HttpResponse head) = 0;
  /// More of the body. The transport keeps what the client has not taken yet, up to its bound: beyond it, the client is
  /// cut, as one that has left.
  virtual void send(std::string_view piece) = 0;
  virtual void finish() = 0;

  /// `gone` is called once, when the client has left before its answer's end or was cut for not reading. Nothing that
  /// is sent afterwards goes anywhere.
  virtual void on_gone(std::function<void()> gone) = 0;
};

/// What answers requests. Lives on one thread, its transport's: no call overlaps another.
class HttpApp {
 public:
  HttpApp() = default;
  HttpApp(const HttpApp&) = delete;
  HttpApp& operator=(const HttpApp&) = delete;
  virtual ~HttpApp() = default;

  /// Answers now, or keeps the exchange and answers later.
  virtual void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) = 0;
  /// The answer to what the transport could not read as a request: `what` is one sentence for its sender.
  [[nodiscard]] virtual HttpResponse refuse(int status, std::string what) = 0;
};

/// What a transport offers to other threads, and to an application that waits.
class HttpTransport {
 public:
  HttpTransport() = default;
  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;
  virtual ~HttpTransport() = default;

  /// Runs `work` on the application's thread, soon. From any thread.
  virtual void post(std::function<void()> work) = 0;
  /// Runs `work` on the application's thread, in `seconds`. On the application's thread.
  virtual void after(double seconds, std::function<void()> work) = 0;
};

} // namespace sluice

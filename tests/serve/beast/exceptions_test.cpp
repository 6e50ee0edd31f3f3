// SPDX-License-Identifier: Apache-2.0
// An exception of an application ends its own response or connection, and no other.
#include "sluice/serve/beast/http_core.hpp"
#include "sluice/serve/beast/http_server.hpp"

#include "serve/beast/wire.hpp"
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace sluice;
using sluice_test::answer_to_plain;
using sluice_test::soon;
namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

/// Throws where its path says, and echoes other paths.
class ThrowingApp final : public HttpApp {
 public:
  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override {
    const std::string_view path = request.path();
    if (path == "/handle") throw std::runtime_error("no answer");
    if (path == "/number") throw 7; // NOLINT(hicpp-exception-baseclass)
    if (path == "/answered") {
      exchange->respond({.type = "text/plain", .body = "answered", .headers = {}, .why = {}});
      throw std::runtime_error("too late");
    }
    if (path == "/begun") {
      exchange->begin({});
      exchange->send("half");
      throw std::runtime_error("in the middle");
    }
    if (path == "/later") {
      const std::shared_ptr<Exchange> kept(std::move(exchange));
      return transport->post([kept] { throw std::bad_alloc(); });
    }
    if (path == "/timer") {
      const std::shared_ptr<Exchange> kept(std::move(exchange));
      kept->begin({});
      return transport->after(0.001, [kept] { throw std::runtime_error("in the middle"); });
    }
    if (path == "/gone" || path == "/flood" || path == "/stuck") {
      exchange->begin({});
      exchange->on_gone([this] {
        ++gone;
        throw std::runtime_error("nobody reads");
      });
      if (path == "/stuck") exchange->send(std::string(16 << 20, 'x'));
      if (path == "/flood") exchange->send("x");
      if (path == "/flood") exchange->send(std::string(1 << 20, 'x'));
      kept.push_back(std::move(exchange));
      return;
    }
    exchange->respond({.type = "text/plain", .body = "echo " + request.target, .headers = {}, .why = {}});
  }
  std::optional<HttpResponse> refuse_head(const HttpRequest& head) override {
    if (head.path() == "/head") throw std::runtime_error("no key");
    return std::nullopt;
  }
  HttpResponse refuse(int status, std::string what, const HttpRequest* /*head*/) override {
    if (status != 500) throw std::runtime_error(what);
    HttpResponse response;
    response.status = status;
    response.body = std::move(what);
    return response;
  }

  HttpTransport* transport = nullptr;
  std::atomic<int> gone{0};
  std::vector<std::unique_ptr<Exchange>> kept;
};

/// A server of that application. An exception that leaves `run` ends the test's program.
struct Throwing {
  explicit Throwing(HttpLimits limits = {}, HttpConnection connection = {}) : server(limits, std::move(connection)) {
    REQUIRE(server.listen({"127.0.0.1", 0}).ok());
    app.transport = &server;
    thread = std::thread([this] { server.run(app); });
  }
  ~Throwing() {
    server.post([this] { server.stop(); });
    thread.join();
  }
  [[nodiscard]] std::string ask(std::string_view path) {
    return answer_to_plain(server.port(),
                           "GET " + std::string{path} + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  HttpServer server;
  ThrowingApp app;
  std::thread thread;
};

} // namespace

namespace sluice_test {

/// A connection whose writes cannot begin.
struct NoWrites {
  class Stream {
   public:
    using executor_type = boost::beast::tcp_stream::executor_type;
    explicit Stream(asio::ip::tcp::socket socket) : next_(std::move(socket)) {}
    [[nodiscard]] executor_type get_executor() { return next_.get_executor(); }
    [[nodiscard]] boost::beast::tcp_stream& next_layer() { return next_; }
    [[nodiscard]] const boost::beast::tcp_stream& next_layer() const { return next_; }
    template <class Buffers, class Token>
    auto async_read_some(const Buffers& buffers, Token&& token) {
      return next_.async_read_some(buffers, std::forward<Token>(token));
    }
    template <class Buffers, class Token>
    auto async_write_some(const Buffers& buffers, Token&& token) {
      if (asio::buffer_size(buffers) > 0) throw std::bad_alloc();
      return next_.async_write_some(buffers, std::forward<Token>(token));
    }

   private:
    boost::beast::tcp_stream next_;
  };
  static constexpr const char* scheme = "http";
  [[nodiscard]] Stream wrap(asio::ip::tcp::socket socket) const { return Stream(std::move(socket)); }
  static asio::awaitable<bool> greet(Stream& /*stream*/) { co_return true; }
  static asio::awaitable<void> part(Stream& /*stream*/) { co_return; }
};

} // namespace sluice_test

TEST_CASE("HttpServer answers 500 or ends the connection if an application throws, and serves the others") {
  HttpLimits limits;
  limits.write_time = 100ms;
  limits.max_unread = 1 << 10;
  Throwing running(limits);
  for (const char* path : {"/handle", "/number", "/later"}) {
    INFO(path);
    CHECK(running.ask(path).starts_with("HTTP/1.1 500 "));
  }
  CHECK(running.ask("/answered").ends_with("\r\n\r\nanswered"));
  for (const char* path : {"/begun", "/timer"}) {
    INFO(path);
    CHECK_FALSE(running.ask(path).ends_with("0\r\n\r\n")); // the client sees that the response is incomplete
  }
  for (const char* refused : {"POST /head HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "no request\r\n\r\n"})
    CHECK(answer_to_plain(running.server.port(), refused).empty());
  CHECK(running.ask("/other").ends_with("echo /other"));
}

TEST_CASE("HttpServer serves the next request on a connection whose application has thrown") {
  Throwing running;
  const std::string both =
      answer_to_plain(running.server.port(), "GET /handle HTTP/1.1\r\nHost: x\r\n\r\nGET /other HTTP/1.1\r\nHost: "
                                             "x\r\nConnection: close\r\n\r\n");
  CHECK(both.starts_with("HTTP/1.1 500 "));
  CHECK(both.ends_with("echo /other"));
}

TEST_CASE("HttpServer goes on if an application throws when it hears that a client is gone") {
  HttpLimits limits;
  limits.write_time = 100ms;
  limits.max_unread = 1 << 10;
  Throwing running(limits);
  {
    asio::io_context context;
    asio::ip::tcp::socket leaves(context), stuck(context), unread(context);
    int told = 0;
    const auto ask = [&](asio::ip::tcp::socket& socket, const std::string& path) {
      socket.connect({asio::ip::make_address("127.0.0.1"), running.server.port()});
      asio::write(socket, asio::buffer("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"));
    };
    ask(stuck, "/stuck");
    CHECK(soon([&] { return running.app.gone == told + 1; }));
    ++told;
    ask(unread, "/flood");
    CHECK(soon([&] { return running.app.gone == told + 1; }));
    ++told;
    ask(leaves, "/gone");
    sluice_test::Received received;
    CHECK(received.read_until(leaves, "\r\n\r\n") != "");
  }
  CHECK(soon([&] { return running.app.gone == 3; }));
  CHECK(running.ask("/other").ends_with("echo /other"));
}

TEST_CASE("HttpServer ends the connection of a write that throws, while it also reads") {
  Throwing running({}, sluice_test::NoWrites{});
  for (int i = 0; i < 3; ++i) CHECK(running.ask("/other").empty());
  CHECK(running.ask("/gone").empty());
  CHECK(soon([&] { return running.app.gone == 1; }));
}

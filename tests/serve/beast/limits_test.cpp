// SPDX-License-Identifier: Apache-2.0
// What clients that nobody knows may take of a server: memory for bodies, and connections.
#include "sluice/serve/beast/http_server.hpp"

#include "serve/beast/wire.hpp"
#include <boost/asio.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <list>
#include <string>
#include <string_view>

using namespace sluice;
using sluice_test::answer_to_plain;
using sluice_test::RunningServer;
using sluice_test::soon;
namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

/// A client that may be cut off while it sends.
struct Stranger {
  explicit Stranger(std::uint16_t port) : socket(context) {
    socket.connect({asio::ip::make_address("127.0.0.1"), port});
  }
  void send(std::string_view message) {
    boost::system::error_code cut;
    asio::write(socket, asio::buffer(message), cut);
  }
  std::string read_all() { return received.read_until(socket, "\1\2never\3"); }

  asio::io_context context;
  asio::ip::tcp::socket socket;
  sluice_test::Received received;
};

HttpFigures figures(RunningServer& running) {
  std::promise<HttpFigures> now;
  running.server.post([&] { now.set_value(running.server.figures()); });
  return now.get_future().get();
}
std::string head(std::string_view path, std::size_t length) {
  return "POST " + std::string{path} + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
}
const std::string health = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

} // namespace

TEST_CASE("HttpServer refuses a head before it reads the body, and uses no memory for the body") {
  RunningServer running;
  const std::string half(64 << 10, 'x');
  std::list<Stranger> strangers;
  for (int i = 0; i < 50; ++i) {
    Stranger& one = strangers.emplace_back(running.port);
    one.send(head("/locked", 1 << 20));
    one.send(half);
    CHECK(figures(running).body_bytes == 0);
  }
  for (Stranger& one : strangers) {
    const std::string answer = one.read_all();
    CHECK(answer.starts_with("HTTP/1.1 401 "));
    CHECK(answer.find("Connection: close\r\n") != std::string::npos);
  }
  CHECK(running.app.requests == 0);
  // A refused client gets no 100 Continue.
  const std::string expecting = answer_to_plain(
      running.port, "POST /locked HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
  CHECK(expecting.starts_with("HTTP/1.1 401 "));
}

TEST_CASE("HttpServer holds no more bytes of all bodies together than it may") {
  HttpLimits limits;
  limits.max_body = 1 << 20;
  limits.max_bodies = 1 << 20;
  RunningServer running(limits);
  std::list<Stranger> strangers;
  const std::string half(100 << 10, 'x');
  for (int i = 0; i < 40; ++i) {
    strangers.emplace_back(running.port).send(head("/half", 200 << 10));
    strangers.back().send(half);
    CHECK(figures(running).body_bytes <= limits.max_bodies);
  }
  CHECK(soon([&] { return figures(running).bodies_refused >= 25; })); // 40 halves are 4 MB
  // Chunks do not say beforehand how many come.
  Stranger chunked(running.port);
  chunked.send("POST /half HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nf0000\r\n" +
               std::string(0xf0000, 'x') + "\r\n");
  const std::string refused = chunked.read_all();
  CHECK(refused.starts_with("HTTP/1.1 503 "));
  CHECK(refused.find("Retry-After: 1\r\n") != std::string::npos);
  CHECK(refused.find("the bodies of other requests use the 1048576 bytes for all bodies") != std::string::npos);
  CHECK(running.app.requests == 0);
  strangers.clear();
  CHECK(soon([&] { return figures(running).body_bytes == 0; }));
  Stranger whole(running.port);
  whole.send(head("/whole", 1 << 20));
  whole.send(std::string(1 << 20, 'x'));
  whole.send("GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(whole.read_all().ends_with("GET /next "));
  CHECK(figures(running).body_bytes == 0);
}

TEST_CASE("HttpServer bounds the lines between chunks") {
  RunningServer running;
  Stranger endless(running.port);
  endless.send("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;" + std::string(1 << 20, 'x'));
  CHECK(endless.read_all().starts_with("HTTP/1.1 400 "));
}

TEST_CASE("HttpServer answers /health however many connections are silent") {
  HttpLimits limits;
  limits.max_connections = 20;
  limits.reserved = 4;
  limits.head_time = 300s; // no connection ends by itself
  limits.reserved_time = 300s;
  RunningServer running(limits);
  std::list<Stranger> silent;
  for (int i = 0; i < 100; ++i) {
    silent.emplace_back(running.port);
    CHECK(soon([&] { return figures(running).connections >= static_cast<std::size_t>(std::min(i + 1, 20)); }));
    CHECK(answer_to_plain(running.port, health).find("HTTP/1.1 200 ") == 0);
  }
  CHECK(figures(running).connections <= 24);
  CHECK(figures(running).turned_away >= 80);
  const std::string other = answer_to_plain(running.port, "GET /other HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(other.starts_with("HTTP/1.1 503 "));
  CHECK(other.find("Retry-After: 1\r\n") != std::string::npos);
  CHECK(other.find("the server has as many connections as it takes") != std::string::npos);
  silent.clear();
  CHECK(soon([&] { return figures(running).connections == 0; }));
  CHECK(answer_to_plain(running.port, "GET /other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 200 "));
}

TEST_CASE("HttpServer limits the connections of one address") {
  HttpLimits limits;
  limits.max_per_address = 3;
  RunningServer running(limits);
  std::list<Stranger> mine;
  for (int i = 0; i < 3; ++i) mine.emplace_back(running.port);
  CHECK(soon([&] { return figures(running).connections == 3; }));
  Stranger fourth(running.port);
  fourth.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string refused = fourth.read_all();
  CHECK(refused.starts_with("HTTP/1.1 503 "));
  CHECK(refused.find("this address has as many connections as one may have") != std::string::npos);
  CHECK(answer_to_plain(running.port, health).starts_with("HTTP/1.1 200 "));
  asio::io_context context; // another address: 127.0.0.2
  asio::ip::tcp::socket other(context, asio::ip::tcp::endpoint(asio::ip::make_address("127.0.0.2"), 0));
  other.connect({asio::ip::make_address("127.0.0.1"), running.port});
  asio::write(other, asio::buffer(std::string_view("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")));
  sluice_test::Received received;
  CHECK(received.read_until(other, "GET /a ").starts_with("HTTP/1.1 200 "));
  mine.clear();
  CHECK(soon([&] { return figures(running).connections <= 1; }));
  CHECK(answer_to_plain(running.port, "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 200 "));
}

// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/beast/http_server.hpp"

#include "serve/beast/wire.hpp"
#include <boost/asio.hpp>
#include <doctest/doctest.h>
#include <sys/ioctl.h>

#include <chrono>
#include <string>
#include <thread>

using namespace sluice;
using sluice_test::soon;
using sluice_test::TestApp;
namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

using Running = sluice_test::RunningServer;

struct Client {
  explicit Client(std::uint16_t port) : socket(context) { socket.connect({asio::ip::make_address("127.0.0.1"), port}); }
  void send(std::string_view message) { asio::write(socket, asio::buffer(message)); }
  std::string read_until(std::string_view mark) { return received.read_until(socket, mark); }
  std::string read_all() { return read_until("\1\2never\3"); }
  /// Whether the server's kernel has acknowledged all that was sent.
  bool all_arrived() {
    int left = -1;
    REQUIRE(::ioctl(socket.native_handle(), TIOCOUTQ, &left) == 0);
    return left == 0;
  }

  asio::io_context context;
  tcp::socket socket;
  sluice_test::Received received;
};

} // namespace

TEST_CASE("HttpServer answers several requests on one connection, also pipelined ones") {
  Running running;
  Client client(running.port);
  client.send("GET /a?b=1 HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string first = client.read_until("GET /a?b=1 ");
  CHECK(first.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(first.find("Content-Length: 11\r\n") != std::string::npos);
  client.send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET /c HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(client.read_until("POST /b hello") != "");
  CHECK(client.read_until("GET /c ").ends_with("GET /c "));
  CHECK(running.app.requests == 3);
}

TEST_CASE("HttpServer takes a target with a host, and sends no length with 204") {
  Running running;
  Client client(running.port);
  client.send("GET http://example.org/nothing?a HTTP/1.1\r\nHost: example.org\r\n\r\n");
  const std::string head = client.read_until("\r\n\r\n");
  CHECK(head.starts_with("HTTP/1.1 204 "));
  CHECK(head.find("Content-Length") == std::string::npos);
  client.send("GET /c HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(client.read_until("GET /c ").find("HTTP/1.1 200 ") == 0); // the next answer begins behind the head
  const auto path = [](const char* target) {
    HttpRequest request;
    request.target = target;
    return std::string{request.path()};
  };
  CHECK(path("/a?b") == "/a");
  CHECK(path("HTTPS://x:1/a/b?c=http://y/z") == "/a/b");
  CHECK(path("http://x") == "/");
  CHECK(path("http://x?a=/b") == "/");
  CHECK(path("/http://x/a") == "/http://x/a");
  CHECK(path("*") == "*");
}

TEST_CASE("HttpServer streams in chunks; a request pipelined after a stream waits for its end") {
  Running running;
  Client client(running.port);
  client.send("GET /stream/50 HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string stream = client.read_until("0\r\n\r\n");
  CHECK(stream.find("Transfer-Encoding: chunked\r\n") != std::string::npos);
  for (int i = 0; i < 50; ++i) CHECK(stream.find("data: " + std::to_string(i) + "\n\n\r\n") != std::string::npos);
  CHECK(client.read_until("GET /next ").ends_with("GET /next "));
  CHECK(running.app.gone == 0);
}

TEST_CASE("HttpServer streams to an HTTP/1.0 client without chunks, and then closes the connection") {
  Running running;
  Client client(running.port);
  client.send("GET /stream/3 HTTP/1.0\r\n\r\n");
  const std::string all = client.read_all();
  CHECK(all.find("chunked") == std::string::npos);
  CHECK(all.ends_with("\r\n\r\ndata: 0\n\ndata: 1\n\ndata: 2\n\n"));
}

TEST_CASE("HttpServer tells the application when a client leaves, before a response and during one") {
  Running running;
  {
    Client waiting(running.port), streaming(running.port);
    waiting.send("GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
    streaming.send("GET /stream/100000 HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(streaming.read_until("data: 3") != "");
    CHECK(soon([&] { return running.app.requests == 2; }));
    CHECK(running.app.gone == 0);
  }
  CHECK(soon([&] { return running.app.gone == 2; }));
}

TEST_CASE("HttpServer drops a client that sends too much ahead, and notices one that sends less and leaves") {
  HttpLimits limits;
  limits.max_ahead = 8 << 10;
  Running running(limits);
  {
    Client less(running.port);
    less.send("GET /never HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(4 << 10, 'x'));
    CHECK(soon([&] { return running.app.requests == 1; }));
    CHECK(soon([&] { return less.all_arrived(); }));
    // Each count is a turn of the server's loop, which reads what has arrived: 256 bytes at first, and then as much as
    // it has, so that a few turns take all.
    for (int turn = 0; turn < 64; ++turn) CHECK(running.connections() == 1);
    CHECK(running.app.gone == 0);
  }
  CHECK(soon([&] { return running.app.gone == 1; }));
  Client more(running.port);
  more.send("GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(soon([&] { return running.app.requests == 2; }));
  boost::system::error_code cut; // the server may close the connection before everything is sent
  asio::write(more.socket, asio::buffer(std::string(64 << 10, 'x')), cut);
  CHECK(soon([&] { return running.app.gone == 2; }));
}

TEST_CASE("HttpServer drops a client that reads nothing, once its response exceeds the limit") {
  HttpLimits limits;
  limits.max_unread = 64 << 10;
  Running running(limits);
  Client client(running.port);
  client.send("GET /flood HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(soon([&] { return running.app.gone == 1; }));
  client.read_all(); // what had been sent; then the connection is over, although the client has not left
  CHECK(soon([&] { return running.connections() == 0; }));
}

TEST_CASE("HttpServer ends the connection of a response that the application gives up") {
  Running running;
  Client client(running.port);
  client.send("GET /broken HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(soon([&] { return running.app.requests == 1; }));
  CHECK(soon([&] { return running.connections() == 0; }));
}

TEST_CASE("HttpServer never drops a client that reads, however large a piece is") {
  HttpLimits limits;
  limits.max_unread = 64 << 10;
  Running running(limits);
  Client client(running.port);
  client.send("GET /burst HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string all = client.read_all();
  CHECK(all.size() > (std::size_t{1} << 20));
  CHECK(all.ends_with("\r\n0\r\n\r\n"));
}

TEST_CASE("HttpServer drops a client that takes no byte within the write time") {
  HttpLimits limits;
  limits.write_time = 100ms;
  Running running(limits);
  Client client(running.port), other(running.port);
  client.send("GET /stuck HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(soon([&] { return running.app.gone == 1; }));
  other.send("GET /fine HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(other.read_all().ends_with("GET /fine "));
}

TEST_CASE("HttpServer refuses invalid, long and slow requests, and serves the next client") {
  HttpLimits limits;
  limits.max_body = 1000;
  limits.max_header = 2000;
  limits.head_time = 200ms;
  Running running(limits);
  const auto answer_to = [&](const std::string& text) {
    Client client(running.port);
    boost::system::error_code ignored;
    asio::write(client.socket, asio::buffer(text), ignored);
    return client.read_all();
  };
  CHECK(answer_to("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
  const auto is_refused = [&](const std::string& text, const char* status) { // with its request's head known
    const std::string answer = answer_to(text);
    return answer.starts_with(status) && answer.ends_with(" to POST /long");
  };
  CHECK(is_refused("POST /long HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + std::string(5000, 'x'),
                   "HTTP/1.1 413 "));
  CHECK(is_refused("POST /long HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                       std::string(2000, 'x') + "\r\n0\r\n\r\n",
                   "HTTP/1.1 413 "));
  CHECK(is_refused("POST /long HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", "HTTP/1.1 400 "));
  CHECK(answer_to("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n")
            .starts_with("HTTP/1.1 400 "));
  CHECK(answer_to("GET / HTTP/1.1\r\nX: " + std::string(5000, 'x') + "\r\n\r\n").starts_with("HTTP/1.1 431 "));
  CHECK(answer_to("GET / HTTP/1.1\r\nX: ").empty()); // a head that never ends: the connection is closed
  CHECK(answer_to("GET /dropped HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 500 "));
  CHECK(answer_to("GET /fine HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 200 "));
  CHECK(answer_to("HEAD /fine HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ends_with("\r\n\r\n"));
}

TEST_CASE("HttpServer answers Expect: 100-continue and reads the body") {
  Running running;
  Client client(running.port);
  client.send("POST /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  CHECK(client.read_until("100 Continue\r\n\r\n").starts_with("HTTP/1.1 100"));
  client.send("ok");
  CHECK(client.read_until("POST /e ok") != "");
}

TEST_CASE("HttpServer sends no interim response to HTTP/1.0, and closes if any Connection field asks for it") {
  Running running;
  Client old(running.port);
  old.send("POST /e HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok");
  CHECK(old.read_until("POST /e ok").starts_with("HTTP/1.1 200"));
  for (const char* fields : {"Connection: keep-alive\r\nConnection: close\r\n", "Connection: x, Close\r\n",
                             "Connection: x\r\nConnection: y, close\r\n"}) {
    const std::string answer =
        sluice_test::answer_to_plain(running.port, std::string{"GET /fine HTTP/1.1\r\nHost: x\r\n"} + fields + "\r\n");
    CHECK_MESSAGE(answer.find("Connection: close\r\n") != std::string::npos, fields); // and the read has ended
  }
}

TEST_CASE("HttpServer drains: streams under way end; idle and new connections do not delay it") {
  HttpServer server;
  REQUIRE(server.listen({"127.0.0.1", 0}).ok());
  TestApp app;
  app.transport = &server;
  const std::uint16_t port = server.port();
  std::thread thread([&] { server.run(app); });
  Client idle(port), streaming(port);
  streaming.send("GET /stream/100 HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(streaming.read_until("data: 3") != "");
  server.post([&] { server.drain(10s); });
  const std::string rest = streaming.read_until("0\r\n\r\n");
  CHECK(rest.find("data: 99\n") != std::string::npos);
  thread.join();
  CHECK(app.gone == 0);
}

TEST_CASE("HttpServer's drain has a time limit") {
  HttpServer server;
  REQUIRE(server.listen({"127.0.0.1", 0}).ok());
  TestApp app;
  app.transport = &server;
  const std::uint16_t port = server.port();
  std::thread thread([&] { server.run(app); });
  Client client(port);
  client.send("GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(soon([&] { return app.requests == 1; }));
  server.post([&] { server.drain(50ms); });
  thread.join();
  CHECK(app.gone == 1);
}

TEST_CASE("HttpServer reports a port in use and an invalid address, with what it expects") {
  HttpServer first, second, third;
  REQUIRE(first.listen({"127.0.0.1", 0}).ok());
  const Status taken = second.listen({"127.0.0.1", first.port()});
  REQUIRE(!taken.ok());
  CHECK(taken.error().line().find("--port: 127.0.0.1:") == 0);
  const Status none = third.listen({"localhost", 0});
  REQUIRE(!none.ok());
  CHECK(none.error().line() == "--host: 'localhost' is no address; expected a number, as 127.0.0.1 or ::1");
}

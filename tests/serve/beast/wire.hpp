// SPDX-License-Identifier: Apache-2.0
// RunningServer: a server on a thread of its own; Received: the text that a client reads, with or without TLS.
#pragma once

#include "sluice/serve/beast/http_server.hpp"

#include "serve/beast/test_app.hpp"
#include <boost/asio.hpp>
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace sluice_test {

struct RunningServer {
  explicit RunningServer(sluice::HttpLimits limits = {}, sluice::HttpConnection connection = {})
      : server(limits, std::move(connection)) {
    REQUIRE(server.listen({"127.0.0.1", 0}).ok());
    port = server.port();
    app.transport = &server;
    thread = std::thread([this] {
      server.run(app);
      ended = true;
    });
  }
  ~RunningServer() {
    server.post([this] { server.stop(); });
    thread.join();
  }
  /// Counted on the server's thread.
  std::size_t connections() {
    std::promise<std::size_t> count;
    server.post([&] { count.set_value(server.connections()); });
    return count.get_future().get();
  }

  sluice::HttpServer server;
  TestApp app;
  std::uint16_t port = 0;
  std::atomic<bool> ended = false;
  std::thread thread;
};

/// Text read from an Asio stream and not returned yet.
struct Received {
  /// Reads and returns the text up to and including `mark`. If the connection ends before: everything, with its error
  /// in `ended`.
  template <class Stream>
  std::string read_until(Stream& stream, std::string_view mark) {
    while (text.find(mark) == std::string::npos) {
      char piece[4096];
      const std::size_t bytes = stream.read_some(boost::asio::buffer(piece), ended);
      if (ended) break;
      text.append(piece, bytes);
    }
    const std::size_t at = text.find(mark);
    std::string taken = text.substr(0, at == std::string::npos ? text.size() : at + mark.size());
    text.erase(0, taken.size());
    return taken;
  }

  boost::system::error_code ended;
  std::string text;
};

/// The whole response to a message that is not encrypted.
inline std::string answer_to_plain(std::uint16_t port, std::string_view message) {
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket socket(context);
  socket.connect({boost::asio::ip::make_address("127.0.0.1"), port});
  boost::asio::write(socket, boost::asio::buffer(message));
  std::string text;
  boost::system::error_code end;
  boost::asio::read(socket, boost::asio::dynamic_buffer(text), end);
  return text;
}

} // namespace sluice_test

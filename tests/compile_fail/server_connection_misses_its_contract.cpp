// SPDX-License-Identifier: Apache-2.0
// A Connection without `part` is rejected, and the message names what it lacks.
// sentences: 1
// says: this Connection needs a .scheme., a nested .Stream., .Stream wrap\(tcp::socket\) const.
// not: nvcc (whose front end does not compile the coroutines of Boost.Asio)
#include "sluice/serve/beast/http_core.hpp"

#include <utility>

struct Hushed {
  static constexpr const char* scheme = "http";
  using Stream = boost::beast::tcp_stream;
  Stream wrap(boost::asio::ip::tcp::socket socket) const { return Stream(std::move(socket)); }
  boost::asio::awaitable<bool> greet(Stream&) const { co_return true; }
#ifdef GOOD
  boost::asio::awaitable<void> part(Stream&) const { co_return; }
#endif
};

sluice::HttpConnection hushed() { return Hushed{}; }

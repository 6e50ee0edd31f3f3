// SPDX-License-Identifier: Apache-2.0
// A Connection that says nothing at its end is named with what it lacks.
// sentences: 1
// says: this Connection needs a .scheme., a nested .Stream., .Stream wrap\(tcp::socket\) const.
// not: nvcc (whose front end does not compile the coroutines of Boost.Asio)
#include "sluice/serve/beast/connection.hpp"
#include "sluice/serve/compose_server.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"
#include "sluice/systems/vllm.hpp"

#include <utility>

struct Hushed {
  using role = sluice::roles::Connection;
  static constexpr const char* scheme = "http";
  using Stream = boost::beast::tcp_stream;
  Stream wrap(boost::asio::ip::tcp::socket socket) const { return Stream(std::move(socket)); }
  boost::asio::awaitable<bool> greet(Stream&) const { co_return true; }
#ifdef GOOD
  boost::asio::awaitable<void> part(Stream&) const { co_return; }
#endif
};

using Mine = sluice::With<sluice::VllmSwap, sluice::GenerationFeed>;
static_assert(sluice::explain_server<Mine, sluice::OpenAi, Hushed>());

// SPDX-License-Identifier: Apache-2.0
// A server whose parts make none is explained in a sentence each, and what is written with it is no further error.
// sentences: 2
// says: two Connections in one server: keep one of them
// says: this server has no Api: name one, as OpenAi
// not: nvcc (whose front end does not compile the coroutines of Boost.Asio)
#include "sluice/serve/beast/live_server.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"
#include "sluice/systems/vllm.hpp"

#include <utility>

using Mine = sluice::With<sluice::VllmSwap, sluice::GenerationFeed>;
#ifdef GOOD
using MyServer = sluice::LiveServer<Mine, sluice::OpenAi, sluice::PlainHttp, sluice::QueueLimit>;
#else
struct Other : sluice::PlainHttp {};
using MyServer = sluice::LiveServer<Mine, sluice::PlainHttp, Other, sluice::QueueLimit>;
#endif

bool serve(MyServer::Config config) {
  if (!MyServer::serve(config, [](const MyServer& server) { return server.url(); })) return false;
  const auto server = MyServer::make(std::move(config));
  if (!server) return false;
  return (*server)->port() != 0 && (*server)->run().ok();
}

// SPDX-License-Identifier: Apache-2.0
// A server whose first parameter is no engine is rejected in one message, and code that uses it adds no error.
// sentences: 1
// says: the first parameter of a server is its engine: .LiveServer<With<OrbitFlow, GenerationFeed>, QueueLimit>.
// not: nvcc (whose front end does not compile the coroutines of Boost.Asio)
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/serve/beast/nlohmann/live_server.hpp"
#include "sluice/serve/nlohmann/simulated_config.hpp"

#include <tuple>
#include <utility>

using Mine = sluice::With<sluice::VllmSwap, sluice::GenerationFeed>;
#ifdef GOOD
using MyServer = sluice::LiveServer<Mine, sluice::QueueLimit>;
#else
using MyServer = sluice::LiveServer<sluice::QueueLimit, Mine>;
#endif

// The good half is a type; programs that use it take half a minute to compile, and examples/ has them.
#ifdef GOOD
static_assert(sizeof(MyServer) > 0);
#else
bool serve(const sluice::Server& machine, const sluice::Tokenizer& tokenizer) {
  MyServer::Config config = sluice::simulated_config<MyServer>(machine, tokenizer);
  if (!MyServer::serve(config, [](const MyServer& server) { return server.url(); })) return false;
  const auto server = MyServer::make(std::move(config));
  if (!server) return false;
  return (*server)->port() != 0 && (*server)->run().ok();
}
#endif

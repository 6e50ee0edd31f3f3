// SPDX-License-Identifier: Apache-2.0
// A rejected engine has messages of its own, and its server adds none.
// sentences: 1
// says: two Delivery policies in one engine: keep one of them
// not: nvcc (whose front end does not compile the coroutines of Boost.Asio)
#include "sluice/policy/delivery/token_deposit.hpp"
#include "sluice/serve/beast/nlohmann/live_server.hpp"

#include <utility>

#ifdef GOOD
using Mine = sluice::Engine<sluice::TokenDeposit, sluice::GenerationFeed>;
#else
using Mine = sluice::Engine<sluice::TokenDeposit, sluice::Immediate, sluice::GenerationFeed>;
#endif
using MyServer = sluice::LiveServer<Mine, sluice::QueueLimit>;

// The good half is a type; programs that use it take half a minute to compile, and examples/ has them.
#ifdef GOOD
static_assert(sizeof(MyServer) > 0);
#else
bool serve(MyServer::Config config) {
  const auto server = MyServer::make(std::move(config));
  return server && (*server)->run().ok();
}
#endif

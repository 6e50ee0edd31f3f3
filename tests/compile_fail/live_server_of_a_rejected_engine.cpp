// SPDX-License-Identifier: Apache-2.0
// An engine that was rejected has its own sentences, and the server around it adds none.
// sentences: 1
// says: two Delivery policies in one engine: keep one of them
// not: nvcc (whose front end does not compile the coroutines of Boost.Asio)
#include "sluice/delivery/token_deposit.hpp"
#include "sluice/serve/beast/live_server.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"

#include <utility>

#ifdef GOOD
using Mine = sluice::Engine<sluice::TokenDeposit, sluice::GenerationFeed>;
#else
using Mine = sluice::Engine<sluice::TokenDeposit, sluice::Immediate, sluice::GenerationFeed>;
#endif
using MyServer = sluice::LiveServer<Mine, sluice::OpenAi, sluice::QueueLimit>;

bool serve(MyServer::Config config) {
  const auto server = MyServer::make(std::move(config));
  return server && (*server)->run().ok();
}

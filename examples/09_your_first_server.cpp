// SPDX-License-Identifier: Apache-2.0
// your_first_server: an engine type behind the OpenAI API, with a gate of one's own.
//
// The problem: to see what a policy does to users, the users' programs have to reach it. Goals of this program: a
// server as one type, composed as its engine is, that forecasts, and says what other systems would have done; a gate in
// ten lines; and any client of the API in front of it. Nothing is downloaded and no GPU is there: OrbitFlow serves
// Llama-3-8B on a simulated A5000, at the pace that the A5000 would have, with drawn letters for tokens.
// `your_first_server PORT` serves until TERM.
#include "sluice/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/serve/beast/live_server.hpp"
#include "sluice/serve/forecast_slo.hpp"
#include "sluice/serve/nlohmann/simulated_config.hpp"
#include "sluice/systems/orbitflow.hpp"
#include "sluice/systems/superinfer.hpp"
#include "sluice/systems/vllm.hpp"
#include "sluice/tokenizer/bytes.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace {

using namespace sluice;

/// Refuses prompts that would keep everybody else waiting.
struct PromptLimit {
  using role = roles::Gate;
  std::size_t most = 2'000; ///< tokens

  GateAnswer answer(const Generation& newcomer, const auto& /*engine*/) const {
    const std::size_t tokens = newcomer.prompt.size();
    if (tokens <= most) return {};
    return GateAnswer::refused(fmt::format("the prompt has {} tokens; expected at most {}", tokens, most));
  }
};

using Mine = With<OrbitFlow, GenerationFeed>;
using MyServer = LiveServer<Mine, OpenAi, PromptLimit, QueueLimit, ForecastSlo, WhatIf<VllmSwap, SuperInfer>>;

} // namespace

int main(int argc, char** argv) {
  const Server machine{llama3_8b(), a5000(), TokenBlocks{700}, {.batch = 4, .max_context = Tokens{4'096}}};
  const ByteTokenizer tokenizer;
  MyServer::Config config = simulated_config<MyServer>(machine, tokenizer);
  config.address.port = static_cast<std::uint16_t>(argc > 1 ? std::atoi(argv[1]) : 8080);
  config.api.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.06}};
  config.what_if.names = {"VllmSwap", "SuperInfer"};
  config.gates = {PromptLimit{.most = 2'000}, QueueLimit{.most = 64}, ForecastSlo{}};

  const Status served = MyServer::serve(std::move(config), [](const MyServer& server) {
    fmt::print("llama3-8b on an A5000, simulated, until TERM\n{}/v1\n", server.url());
    std::fflush(stdout);
  });
  if (!served) fmt::print(stderr, "your_first_server: {}\n", served.error().line());
  return served ? 0 : 2;
}

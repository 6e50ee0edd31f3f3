// SPDX-License-Identifier: Apache-2.0
// your_first_server: an engine type behind the OpenAI API, with your own gate.
//
// The problem: to see what a policy does to users, their programs must be able to reach it. Goals of this program: a
// server that forecasts latencies and shows what other systems would have achieved; an admission gate in ten lines;
// support for any client of the OpenAI API. It downloads nothing and needs no GPU: OrbitFlow serves Llama-3-8B on a
// simulated A5000, at that device's pace, and tokens are random letters. `your_first_server PORT` serves until it
// receives SIGTERM.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/serve/beast/nlohmann/live_server.hpp"
#include "sluice/serve/forecast_slo.hpp"
#include "sluice/serve/nlohmann/simulated_config.hpp"
#include "sluice/serve/what_if_engines.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

namespace {

using namespace sluice;

/// Refuses long prompts, which make all other requests wait.
struct PromptLimit {
  std::size_t most = 2'000; ///< tokens

  GateAnswer answer(const Generation& newcomer, const auto& /*engine*/) const {
    const std::size_t tokens = newcomer.prompt.size();
    if (tokens <= most) return {};
    return GateAnswer::refused(fmt::format("the prompt has {} tokens; expected at most {}", tokens, most));
  }
};

using Mine = With<OrbitFlow, GenerationFeed>;
using MyServer = LiveServer<Mine, PromptLimit, QueueLimit, ForecastSlo>;

} // namespace

int main(int argc, char** argv) {
  const char* const given = argc > 1 ? argv[1] : "8080";
  std::uint16_t port = 0;
  const auto [end, wrong] = std::from_chars(given, given + std::strlen(given), port);
  if (wrong != std::errc{} || *end != '\0') {
    fmt::print(stderr, "your_first_server: PORT is '{}'; expected a whole number from 0 to 65535\n", given);
    return 2;
  }
  const Server machine{llama3_8b(), a5000(), TokenBlocks{700}, {.batch = 4, .max_context = Tokens{4'096}}};
  const ByteTokenizer tokenizer;
  MyServer::Config config = simulated_config<MyServer>(machine, tokenizer);
  config.address.port = port;
  config.api.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.06}};
  config.what_if = {what_if_system<Mine>(machine, "this server"), what_if_system<VllmSwap>(machine, "VllmSwap"),
                    what_if_system<SuperInfer>(machine, "SuperInfer")};
  config.gates = {PromptLimit{.most = 2'000}, QueueLimit{.most = 64}, ForecastSlo{}};

  const Status served = MyServer::serve(std::move(config), [](const MyServer& server) {
    fmt::print("llama3-8b on an A5000, simulated, until SIGTERM\n{}/v1\n", server.url());
    if (std::fflush(stdout) != 0) std::perror("your_first_server: standard output"), std::quick_exit(2);
  });
  if (!served) fmt::print(stderr, "your_first_server: {}\n", served.error().line());
  return served ? 0 : 2;
}

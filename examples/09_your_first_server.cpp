// SPDX-License-Identifier: Apache-2.0
// your_first_server: an engine type behind the OpenAI API, with a gate of one's own.
//
// The problem: to see what a policy does to users, the users' programs have to reach it. Goals of this program: a
// server as one type, composed as its engine is; a gate in ten lines; and any client of the API in front of it. Nothing
// is downloaded and no GPU is there: OrbitFlow serves Llama-3-8B on a simulated A5000, at the pace that the A5000 would
// have, with drawn letters for tokens. `your_first_server PORT` serves until TERM.
#include "sluice/device/named.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/model/named.hpp"
#include "sluice/serve/beast/live_server.hpp"
#include "sluice/serve/drawn_tokens.hpp"
#include "sluice/serve/nlohmann/openai_setup.hpp"
#include "sluice/systems/orbitflow.hpp"
#include "sluice/tokenizer/bytes.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

using namespace sluice;

/// Refuses prompts that would keep everybody else waiting.
struct PromptLimit {
  using role = roles::Gate;
  std::size_t most = 2'000; ///< tokens

  GateAnswer answer(const Generation& newcomer, const auto& /*engine*/) const {
    if (newcomer.prompt.size() <= most) return {};
    GateAnswer answer;
    answer.admit = false;
    answer.error.message = fmt::format("the prompt has {} tokens; expected at most {}", newcomer.prompt.size(), most);
    return answer;
  }
};

using Mine = With<OrbitFlow, GenerationFeed>;
using MyServer = LiveServer<Mine, OpenAi, PromptLimit, QueueLimit>;

} // namespace

int main(int argc, char** argv) {
  const Server machine{.model = llama3_8b(),
                       .device = a5000(),
                       .kv_blocks = TokenBlocks{700},
                       .limits = {.batch = 4, .max_context = Tokens{4'096}}};
  const ByteTokenizer tokenizer;
  OpenAiSetup api = openai_setup("llama3-8b", tokenizer, machine.limits.max_context.count());
  api.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.06}};
  api.logprobs = false; // tokens are drawn
  const Expected<std::unique_ptr<MyServer>> server =
      MyServer::make({.engine = configure<Mine>(machine),
                      .tokens = std::make_shared<DrawnTokens>(*tokenizer.encode("a letter ", AddSpecial::no)),
                      .api = api,
                      .gates = {PromptLimit{}, QueueLimit{64}},
                      .address = {.port = static_cast<std::uint16_t>(argc > 1 ? std::atoi(argv[1]) : 8080)}});
  if (!server) {
    fmt::print(stderr, "your_first_server: {}\n", server.error().line());
    return 2;
  }
  fmt::print("{} on {}, simulated, until TERM\nhttp://127.0.0.1:{}/v1\n", machine.model.name, machine.device.name,
             (*server)->port());
  std::fflush(stdout);
  return (*server)->run().ok() ? 0 : 1;
}

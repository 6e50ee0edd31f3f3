// SPDX-License-Identifier: Apache-2.0
// simulated_config: the configuration of a LiveServer on a simulated machine.
#pragma once

#include "sluice/engine/serve.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"
#include "sluice/serve/token_source.hpp"
#include "sluice/serve/wall_time.hpp"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <utility>

namespace sluice {

// openai_setup: an OpenAiSetup with this machine's clocks and random numbers.

/// `model`: the name that clients use. `tokenizer` must outlive the server.
[[nodiscard]] inline OpenAiSetup openai_setup(std::string model, const Tokenizer& tokenizer, std::int64_t context) {
  OpenAiSetup setup;
  setup.model = std::move(model);
  setup.tokenizer = &tokenizer;
  if (const Expected<ChatFormat> format = chat_format_of(tokenizer))
    setup.chat = *format;
  else
    setup.no_chat = format.error().line();
  setup.vocabulary = static_cast<int>(tokenizer.vocabulary().size());
  setup.context = context;
  setup.now_s = [] { return static_cast<std::int64_t>(std::time(nullptr)); };
  setup.now_ms = wall_ms;
  setup.process_metrics = true;
  setup.created = setup.now_s();
  setup.clock = [began = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  setup.random = [random = std::make_shared<std::mt19937_64>(std::random_device{}())] { return (*random)(); };
  return setup;
}

/// Returns the configuration of a LiveServer `S` whose engine is simulated on `machine`, as `configure` sets it up, at
/// the wall clock's pace, with random letters as tokens. Everything else has S::Config's default. `tokenizer` must
/// outlive the server.
template <class S>
[[nodiscard]] typename S::Config simulated_config(const Server& machine, const Tokenizer& tokenizer) {
  if constexpr (requires { typename S::engine_type; }) { // a rejected server has no engine type; its static assertions
                                                         // explain why
    typename S::Config config{{.api = openai_setup(machine.model.name, tokenizer, machine.limits.max_context.count())},
                              configure<typename S::engine_type>(machine),
                              std::make_shared<DrawnTokens>(letters_to_draw(tokenizer))};
    config.api.logprobs = false; // random tokens have no log-probabilities
    return config;
  } else {
    return {};
  }
}

} // namespace sluice

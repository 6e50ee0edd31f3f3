// SPDX-License-Identifier: Apache-2.0
// openai_setup: an OpenAiSetup with this machine's clocks and random numbers.
#pragma once

#include "sluice/serve/nlohmann/openai_app.hpp"
#include "sluice/serve/wall_time.hpp"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <utility>

namespace sluice {

/// `model`: the name that clients use. `tokenizer` must outlive the server.
[[nodiscard]] inline OpenAiSetup openai_setup(std::string model, const Tokenizer& tokenizer, std::int64_t context) {
  OpenAiSetup setup;
  setup.model = std::move(model);
  setup.tokenizer = &tokenizer;
  setup.chat = find_chat_format(tokenizer);
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

} // namespace sluice

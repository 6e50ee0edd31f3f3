// SPDX-License-Identifier: Apache-2.0
// simulated_config: the configuration of a LiveServer on a simulated machine.
#pragma once

#include "sluice/engine/serve.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/serve/drawn_tokens.hpp"
#include "sluice/serve/nlohmann/openai_setup.hpp"

#include <memory>

namespace sluice {

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

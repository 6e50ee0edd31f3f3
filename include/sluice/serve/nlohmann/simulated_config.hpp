// SPDX-License-Identifier: Apache-2.0
// simulated_config: what a LiveServer is made from where its machine is simulated.
#pragma once

#include "sluice/engine/serve.hpp"
#include "sluice/serve/compose_server.hpp"
#include "sluice/serve/drawn_tokens.hpp"
#include "sluice/serve/nlohmann/openai_setup.hpp"
#include "sluice/serve/what_if_engines.hpp"
#include "sluice/tokenizer/tokenizer.hpp"

#include <memory>
#include <utility>

namespace sluice {

/// For a server type `S` whose engine is simulated and whose API is OpenAi: the engine as `configure` sets it up on
/// `machine`, at the wall's pace, with drawn letters for tokens; a what-if, if it has one, on the same machine.
/// Address, gates, SLOs and the rest are as `S::Config` has them. `tokenizer` must outlive the server. `connection`:
/// where `S` has one that cannot be made of nothing, as Tls.
template <class S, class... Connection>
[[nodiscard]] typename S::Config simulated_config(const Server& machine, const Tokenizer& tokenizer,
                                                  Connection... connection) {
  if constexpr (requires { typename S::composition; }) { // a rejected server has none: its sentences say why
    using E = typename S::engine_type;
    typename S::Config config{.engine = configure<E>(machine),
                              .tokens = std::make_shared<DrawnTokens>(letters_to_draw(tokenizer)),
                              .api = openai_setup(machine.model.name, tokenizer, machine.limits.max_context.count()),
                              .connection = {std::move(connection)...}};
    config.api.logprobs = false; // tokens are drawn
    if constexpr (S::composition::has_what_if) {
      config.what_if.server = machine;
      config.what_if.own = what_if_system<E>(machine, "this server");
    }
    return config;
  } else {
    return {};
  }
}

} // namespace sluice

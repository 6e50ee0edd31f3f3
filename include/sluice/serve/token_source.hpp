// SPDX-License-Identifier: Apache-2.0
// TokenSource: supplies the tokens of an engine's requests, computed by a machine or drawn at random.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/serve/generation.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// All calls are made on the engine's thread.
class TokenSource {
 public:
  TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;
  virtual ~TokenSource() = default;

  /// The engine has accepted a generation as request `id`.
  virtual void enter(RequestId id, const Generation& generation) = 0;
  /// The tokens generated so far: at least `count`, which is how many the engine has counted.
  [[nodiscard]] virtual std::span<const std::int32_t> generated(RequestId id, std::size_t count) = 0;
  /// For each of these tokens, if requested: its own log-probability, then the likeliest alternatives.
  [[nodiscard]] virtual std::span<const std::vector<TokenChance>> chances(RequestId id) = 0;
  /// The same for the tokens of the prompt but the first, if `Generation::scores_prompt`: complete when the first token
  /// has been generated.
  [[nodiscard]] virtual std::span<const std::vector<TokenChance>> prompt_chances(RequestId /*id*/) { return {}; }
  /// Whether an end token ended the request, rather than its bound.
  [[nodiscard]] virtual bool stopped(RequestId id) = 0;
  virtual void forget(RequestId id) = 0;
};

} // namespace sluice

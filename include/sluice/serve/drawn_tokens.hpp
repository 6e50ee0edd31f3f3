// SPDX-License-Identifier: Apache-2.0
// DrawnTokens: random tokens for a simulated system; equal seeds give equal tokens.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/random.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/serve/token_source.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace sluice {

/// Draws tokens from `vocabulary`, seeded by a generation's seed and sequence. Every answer has its maximum length, and
/// tokens have no log-probabilities.
class DrawnTokens final : public TokenSource {
 public:
  explicit DrawnTokens(std::vector<std::int32_t> vocabulary);

  void enter(RequestId id, const Generation& generation) override;
  [[nodiscard]] std::span<const std::int32_t> generated(RequestId id, std::size_t count) override;
  [[nodiscard]] std::span<const std::vector<TokenChance>> chances(RequestId /*id*/) override { return {}; }
  [[nodiscard]] bool stopped(RequestId /*id*/) override { return false; }
  void forget(RequestId id) override { requests_.erase(index(id)); }

 private:
  struct Drawn {
    Random random;
    std::vector<std::int32_t> tokens;
  };

  std::vector<std::int32_t> vocabulary_;
  std::unordered_map<std::uint32_t, Drawn> requests_;
};

/// Returns tokens that look like words: frequent lower-case letters, with a space after about every fourth.
[[nodiscard]] std::vector<std::int32_t> letters_to_draw(const Tokenizer& tokenizer);

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/drawn_tokens.inl.hpp"
#endif

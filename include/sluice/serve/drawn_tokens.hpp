// SPDX-License-Identifier: Apache-2.0
// DrawnTokens: random tokens for a simulated system; equal seeds give equal tokens.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/random.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/serve/token_source.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Draws tokens from `vocabulary`, seeded by a generation's seed and sequence. Every answer has its maximum length, and
/// tokens have no log-probabilities.
class DrawnTokens final : public TokenSource {
 public:
  explicit DrawnTokens(std::vector<std::int32_t> vocabulary) : vocabulary_(std::move(vocabulary)) {
    SLUICE_ASSERT(!vocabulary_.empty(), "tokens to draw from");
  }

  void enter(RequestId id, const Generation& generation) override {
    requests_.insert_or_assign(index(id), Drawn{Random(Random(generation.sampling.seed)() ^ generation.sequence),
                                                std::vector<std::int32_t>{}});
  }
  [[nodiscard]] std::span<const std::int32_t> generated(RequestId id, std::size_t count) override {
    Drawn& drawn = requests_.at(index(id));
    while (drawn.tokens.size() < count) drawn.tokens.push_back(vocabulary_[drawn.random.below(vocabulary_.size())]);
    return drawn.tokens;
  }
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
[[nodiscard]] inline std::vector<std::int32_t> letters_to_draw(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> letters;
  for (const char letter : std::string_view{"etaoinshrdlucmfwypvbgk     ,."}) {
    const auto tokens = tokenizer.encode({&letter, 1}, AddSpecial::no);
    if (tokens && !tokens->empty()) letters.push_back(tokens->front());
  }
  return letters;
}

} // namespace sluice

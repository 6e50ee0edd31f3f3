// SPDX-License-Identifier: Apache-2.0
// TokenSource: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/serve/token_source.hpp"

#include <string_view>
#include <utility>

namespace sluice {

SLUICE_INLINE DrawnTokens::DrawnTokens(std::vector<std::int32_t> vocabulary) : vocabulary_(std::move(vocabulary)) {
  SLUICE_ASSERT(!vocabulary_.empty(), "tokens to draw from");
}

SLUICE_INLINE void DrawnTokens::enter(RequestId id, const Generation& generation) {
  requests_.insert_or_assign(
      index(id), Drawn{Random(Random(generation.sampling.seed)() ^ generation.sequence), std::vector<std::int32_t>{}});
}

SLUICE_INLINE std::span<const std::int32_t> DrawnTokens::generated(RequestId id, std::size_t count) {
  Drawn& drawn = requests_.at(index(id));
  while (drawn.tokens.size() < count) drawn.tokens.push_back(vocabulary_[drawn.random.below(vocabulary_.size())]);
  return drawn.tokens;
}

SLUICE_INLINE std::vector<std::int32_t> letters_to_draw(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> letters;
  for (const char letter : std::string_view{"etaoinshrdlucmfwypvbgk     ,."}) {
    const auto tokens = tokenizer.encode({&letter, 1}, AddSpecial::no);
    if (tokens && !tokens->empty()) letters.push_back(tokens->front());
  }
  return letters;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// ByteTokenizer: one token per byte, for models without a tokenizer.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice {

/// Tokens 0..255 are the bytes, 256 begins a text and 257 ends it. No spelling in a text is special.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr std::int32_t begin = 256;
  static constexpr std::int32_t end = 257;
  static constexpr std::int32_t tokens = 258;

  ByteTokenizer() : Tokenizer(bytes(), {.begin_token = begin, .end_tokens = {end}, .leading_spaces = 0}) {}

  [[nodiscard]] Expected<std::vector<std::int32_t>> encode(std::string_view text,
                                                           AddSpecial add = AddSpecial::yes) const override;

 private:
  static Vocabulary bytes();
};

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/bytes.inl.hpp"
#endif

// SPDX-License-Identifier: Apache-2.0
// The characters with which byte-level vocabularies spell bytes ("Ġ" is a space), from GPT-2.
#pragma once

#include "sluice/core/compiled.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// The character of each byte: printable Latin-1 characters represent themselves; the others are U+0100 and up, in
/// order (Radford et al., 2019: a vocabulary without white space and control characters).
[[nodiscard]] constexpr std::array<char32_t, 256> byte_level_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    characters[byte] = printable ? byte : next++;
  }
  return characters;
}

/// The bytes that a token's name spells; none if one of its characters represents no byte.
[[nodiscard]] std::optional<std::string> bytes_of_byte_level(std::string_view name);

/// The name that spells `text`.
[[nodiscard]] std::string byte_level_name(std::string_view text);

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/byte_level.inl.hpp"
#endif

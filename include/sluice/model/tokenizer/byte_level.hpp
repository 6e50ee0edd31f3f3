// SPDX-License-Identifier: Apache-2.0
// The characters with which byte-level vocabularies spell bytes ("Ġ" is a space), from GPT-2.
#pragma once

#include "sluice/core/utf8.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
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
[[nodiscard]] inline std::optional<std::string> bytes_of_byte_level(std::string_view name) {
  static constexpr auto bytes = [] { // of each character; -1 for one that represents no byte
    std::array<std::int16_t, 0x144> of{};
    of.fill(-1);
    const auto characters = byte_level_characters();
    for (std::size_t byte = 0; byte < 256; ++byte) of[characters[byte]] = static_cast<std::int16_t>(byte);
    return of;
  }();
  std::string text;
  while (!name.empty()) {
    const Utf8Step step = next_utf8(name);
    if (step.kind != Utf8Kind::whole || step.code >= bytes.size() || bytes[step.code] < 0) return std::nullopt;
    text += static_cast<char>(static_cast<unsigned char>(bytes[step.code]));
    name.remove_prefix(static_cast<std::size_t>(step.bytes));
  }
  return text;
}

/// The name that spells `text`.
[[nodiscard]] inline std::string byte_level_name(std::string_view text) {
  static constexpr auto characters = byte_level_characters();
  std::string name;
  for (const char byte : text) append_utf8(name, characters[static_cast<unsigned char>(byte)]);
  return name;
}

} // namespace sluice

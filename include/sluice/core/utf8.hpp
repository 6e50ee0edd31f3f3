// SPDX-License-Identifier: Apache-2.0
// UTF-8, one character at a time, for texts that may be broken or cut anywhere.
#pragma once

#include "sluice/core/assert.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

enum class Utf8Kind : std::uint8_t {
  whole,  ///< a well-formed character
  broken, ///< malformed, whatever follows
  cut     ///< the text ends within a character that could still become well-formed
};

/// What a text begins with.
struct Utf8Step {
  Utf8Kind kind = Utf8Kind::cut;
  int bytes = 0;     ///< of a broken character: its longest valid prefix (Unicode 15, section 3.9, table 3-8)
  char32_t code = 0; ///< of a whole character

  friend bool operator==(const Utf8Step&, const Utf8Step&) = default;
};

/// The character, or its remains, at the beginning of `text`, which must not be empty. Overlong forms, surrogates and
/// codes above U+10FFFF are broken (Unicode 15, table 3-7).
[[nodiscard]] constexpr Utf8Step next_utf8(std::string_view text) {
  SLUICE_ASSERT(!text.empty(), "a character of an empty text");
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {Utf8Kind::whole, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Kind::broken, 1, 0};
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  auto code = static_cast<char32_t>(lead & (0xFF >> (length + 1)));
  // After four of the lead bytes the second byte's range is narrower; all others are 80..BF.
  unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (int i = 1; i < length; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (at >= text.size()) return {Utf8Kind::cut, i, 0};
    if (byte(at) < least || byte(at) > most) return {Utf8Kind::broken, i, 0};
    code = (code << 6U) | (byte(at) & 0x3FU);
    least = 0x80;
    most = 0xBF;
  }
  return {Utf8Kind::whole, length, code};
}

/// Appends the UTF-8 of `code`, which is at most U+10FFFF and no surrogate.
inline void append_utf8(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6U));
    put(0x80 | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12U));
    put(0x80 | ((code >> 6U) & 0x3FU));
    put(0x80 | (code & 0x3FU));
  } else {
    put(0xF0 | (code >> 18U));
    put(0x80 | ((code >> 12U) & 0x3FU));
    put(0x80 | ((code >> 6U) & 0x3FU));
    put(0x80 | (code & 0x3FU));
  }
}

/// `text` with U+FFFD for each part that is not UTF-8: safe for JSON and for a screen.
[[nodiscard]] inline std::string replace_broken_utf8(std::string_view text) {
  std::string whole;
  whole.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    const auto bytes = static_cast<std::size_t>(step.bytes);
    if (step.kind == Utf8Kind::whole) {
      whole.append(text.substr(0, bytes));
    } else {
      append_utf8(whole, 0xFFFD);
    }
    text.remove_prefix(bytes);
  }
  return whole;
}

/// Unicode's property White_Space, which `\s` in the patterns means. It has not changed since Unicode 6.3, so no
/// library is needed.
[[nodiscard]] constexpr bool is_white_space(char32_t code) {
  return (code >= 0x9 && code <= 0xD) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

} // namespace sluice

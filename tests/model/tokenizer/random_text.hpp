// SPDX-License-Identifier: Apache-2.0
// Random texts: bytes of any kind, and characters from all over Unicode.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/core/utf8.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice_test {

inline std::size_t below(sluice::Random& random, std::size_t count) {
  return static_cast<std::size_t>(random.below(count));
}

/// Up to `longest` bytes, half of them ASCII, the rest anything.
inline std::string random_bytes(sluice::Random& random, std::size_t longest) {
  std::string text(below(random, longest + 1), '\0');
  for (char& byte : text)
    byte = static_cast<char>(static_cast<unsigned char>(random() % (random() % 2 == 0 ? 128 : 256)));
  return text;
}

/// Up to `longest` characters: letters, digits, spaces of all kinds, marks, scripts, emoji.
inline std::string random_characters(sluice::Random& random, std::size_t longest) {
  struct Range {
    char32_t first, count;
  };
  constexpr std::array<Range, 12> ranges{{{' ', 1},
                                          {'a', 26},
                                          {'0', 10},
                                          {'!', 15},
                                          {'\t', 5},
                                          {0xC0, 64},
                                          {0x300, 32},
                                          {0x5D0, 27},
                                          {0x4E00, 500},
                                          {0x1F600, 64},
                                          {0x2000, 48},
                                          {0xAC00, 200}}};
  std::string text;
  for (std::size_t i = below(random, longest + 1); i > 0; --i) {
    const Range range = ranges[below(random, 3) == 0 ? below(random, ranges.size()) : below(random, 3)];
    sluice::append_utf8(text, range.first + static_cast<char32_t>(below(random, range.count)));
  }
  return text;
}

} // namespace sluice_test

// SPDX-License-Identifier: Apache-2.0
// byte_level: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/byte_level.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

SLUICE_MODEL_INLINE std::optional<std::string> bytes_of_byte_level(std::string_view name) {
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

SLUICE_MODEL_INLINE std::string byte_level_name(std::string_view text) {
  static constexpr auto characters = byte_level_characters();
  std::string name;
  for (const char byte : text) append_utf8(name, characters[static_cast<unsigned char>(byte)]);
  return name;
}

} // namespace sluice

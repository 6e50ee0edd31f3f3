// SPDX-License-Identifier: Apache-2.0
// excerpt: the beginning of foreign text, for a one-line error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

/// The first `longest` characters of `text`, with '?' for control characters, so that an error stays one short line.
inline std::string excerpt(std::string_view text, std::size_t longest = 40) {
  std::string shown;
  for (const char character : text.substr(0, longest)) {
    const bool plain = static_cast<unsigned char>(character) >= 0x20 && character != 0x7f;
    shown += plain ? character : '?';
  }
  if (text.size() > longest) shown += "...";
  return shown;
}

} // namespace sluice

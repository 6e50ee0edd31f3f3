// SPDX-License-Identifier: Apache-2.0
// shell_word: quotes a word of a command line for a shell.
#pragma once

#include <string>

/// Quotes only if necessary.
[[nodiscard]] inline std::string shell_word(const std::string& text) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char character : text)
    if (character == '\'')
      quoted += "'\\''";
    else
      quoted += character;
  return quoted + "'";
}

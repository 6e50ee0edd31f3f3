// SPDX-License-Identifier: Apache-2.0
// Texts of one-line errors: excerpts of foreign text, and a type's name as its author writes it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

// excerpt: the beginning of foreign text, for a one-line error.

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

// type_name: a type's name as its author writes it.

namespace detail {

template <class T>
constexpr std::string_view raw_type_name() {
#if defined(__clang__)
  const std::string_view text = __PRETTY_FUNCTION__;
  const auto begin = text.find("T = ") + 4;
  return text.substr(begin, text.rfind(']') - begin);
#else
  const std::string_view text = __PRETTY_FUNCTION__;
  const auto begin = text.find("T = ") + 4;
  return text.substr(begin, text.find(';', begin) - begin);
#endif
}

/// Compiled once, not for each type.
inline std::string without_namespaces(std::string_view raw) {
  std::string name{raw};
  for (const std::string_view noise : {"sluice::", "(anonymous namespace)::"})
    for (auto at = name.find(noise); at != std::string::npos; at = name.find(noise)) name.erase(at, noise.size());
  return name;
}

} // namespace detail

/// The name of `T`, without this library's namespace, for reports. Enumerators and default arguments are spelled as the
/// compiler does.
template <class T>
[[nodiscard]] std::string type_name() {
  return detail::without_namespaces(detail::raw_type_name<T>());
}

} // namespace sluice

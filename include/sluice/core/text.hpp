// SPDX-License-Identifier: Apache-2.0
// Texts of one-line errors: excerpts of foreign text, a type's name as its author writes it, and a known name for a
// misspelt one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// nearest, did_you_mean: suggests a known name for a misspelt one.

namespace detail {

/// Lower case of ASCII only: names are ASCII, and std::tolower depends on the locale.
constexpr char small_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

} // namespace detail

/// Damerau-Levenshtein distance, regardless of case: the number of letters to insert, remove, replace or swap with the
/// next one that turn one name into the other, each letter edited once.
[[nodiscard]] inline std::size_t name_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  const auto same = [&](std::size_t i, std::size_t j) {
    return detail::small_letter(a[i]) == detail::small_letter(b[j]);
  };
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({above[j] + (same(i, j) ? 0 : 1), above[j + 1] + 1, row[j] + 1});
      if (i > 0 && j > 0 && same(i, j - 1) && same(i - 1, j)) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

/// The first of the names nearest to `meant`; empty if there are no names.
template <class Names>
[[nodiscard]] std::string_view nearest(std::string_view meant, const Names& names) {
  std::string_view best;
  std::size_t least = static_cast<std::size_t>(-1);
  for (const std::string_view name : names)
    if (const std::size_t distance = name_distance(meant, name); distance < least) least = distance, best = name;
  return best;
}

/// " (did you mean llama3-8b?)" for an error's text, or nothing if no name is near. Of the names that begin with
/// `meant`, if it has three letters or more, the shortest; else the nearest, if at most a third of the letters differ
/// (one letter may always differ).
template <class Names>
[[nodiscard]] std::string did_you_mean(std::string_view meant, const Names& names) {
  std::string_view best;
  if (meant.size() >= 3)
    for (const std::string_view name : names)
      if (name_distance(meant, name.substr(0, meant.size())) == 0 && (best.empty() || name.size() < best.size()))
        best = name;
  if (best.empty()) {
    best = nearest(meant, names);
    if (name_distance(meant, best) > std::max<std::size_t>(1, meant.size() / 3)) best = {};
  }
  return best.empty() ? std::string{} : " (did you mean " + std::string{best} + "?)";
}

} // namespace sluice

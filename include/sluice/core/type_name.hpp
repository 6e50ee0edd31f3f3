// SPDX-License-Identifier: Apache-2.0
// type_name: a type's name as its author writes it.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

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

// SPDX-License-Identifier: Apache-2.0
// HttpApp, Exchange, HttpTransport: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/http.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice {

SLUICE_SERVER_INLINE std::string_view HttpHeaders::find(std::string_view name) const {
  for (const auto& [key, value] : all_)
    if (same_name(key, name)) return value;
  return {};
}

SLUICE_SERVER_INLINE bool HttpHeaders::same_name(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

SLUICE_SERVER_INLINE std::string_view HttpRequest::path() const {
  std::string_view rest = target;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!HttpHeaders::same_name(rest.substr(0, scheme.size()), scheme)) continue;
    rest.remove_prefix(scheme.size());
    rest.remove_prefix(std::min(rest.find_first_of("/?"), rest.size()));
    break;
  }
  rest = rest.substr(0, rest.find('?'));
  return rest.empty() ? "/" : rest;
}

} // namespace sluice

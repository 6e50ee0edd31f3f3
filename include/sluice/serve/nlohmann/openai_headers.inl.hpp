// SPDX-License-Identifier: Apache-2.0
// Reads a request's headers: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/serve/nlohmann/openai_headers.hpp"

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace sluice {

SLUICE_SERVER_INLINE bool says_json(const HttpHeaders& headers) {
  std::string_view type = headers.find("Content-Type");
  if (type.empty()) return headers.find("Origin").empty();
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return HttpHeaders::same_name(type, "application/json");
}

SLUICE_SERVER_INLINE std::optional<ApiError> read_slo_headers(const HttpHeaders& headers, Slo& slo) {
  for (const auto& [name, place] : {std::pair{"x-slo-ttft-ms", &slo.ttft}, std::pair{"x-slo-tbt-ms", &slo.tbt}}) {
    const std::string_view text = headers.find(name);
    if (text.empty()) continue;
    double milliseconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), milliseconds);
    if (error != std::errc{} || end != text.data() + text.size() || !(milliseconds > 0 && milliseconds <= 1e9))
      return detail::api_error(name, std::string{name} + " is '" + without_controls(excerpt(text)) +
                                         "'; expected milliseconds, above 0 and at most 1e9");
    *place = Seconds{milliseconds / 1e3};
  }
  return std::nullopt;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// pages: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/report/pages.hpp"

#include <cstddef>

namespace sluice::pages {

SLUICE_REPORT_INLINE std::string joined(std::span<const std::string_view> modules) {
  std::string out;
  for (const std::string_view module : modules) out += module;
  return out;
}

SLUICE_REPORT_INLINE std::string filled(std::string_view text,
                                        std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  std::string out;
  for (;;) {
    const std::size_t open = text.find("{{"), close = text.find("}}", open);
    out += text.substr(0, open);
    if (open == std::string_view::npos) return out;
    const std::string_view wanted = text.substr(open + 2, close - open - 2);
    bool known = false;
    for (const auto& [name, value] : values) {
      if (name != wanted) continue;
      out += value;
      known = true;
    }
    SLUICE_ASSERT(known, "a page has an unknown placeholder");
    static_cast<void>(known); // used only in assertions
    text.remove_prefix(close + 2);
  }
}

} // namespace sluice::pages

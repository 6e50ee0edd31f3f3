// SPDX-License-Identifier: Apache-2.0
// Makes pages from the files in report/pages: each page is one file that needs no network.
#pragma once

#if !__has_include("sluice/report/pages/files.hpp")
#error "sluice: sluice/report/pages/files.hpp is written by CMake: link sluice::sluice, or run \
cmake -DINTO=<folder> -P cmake/pages.cmake and add the folder to the include path"
#endif
#include "sluice/core/assert.hpp"
#include "sluice/report/pages/files.hpp"

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::pages {

/// Joins the modules of a page into one script.
[[nodiscard]] inline std::string joined(std::span<const std::string_view> modules) {
  std::string out;
  for (const std::string_view module : modules) out += module;
  return out;
}

/// Replaces the placeholders of a file's text, each `{{name}}`, by values. Placeholders within values are not replaced.
[[nodiscard]] inline std::string filled(std::string_view text,
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

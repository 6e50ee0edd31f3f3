// SPDX-License-Identifier: Apache-2.0
// live_page: the page at /live, which shows what the server is doing.
#pragma once

#include "sluice/report/pages.hpp"

#include <string>

namespace sluice {

/// What a browser lets the page do: its own style and script, and questions to the server that it came from.
inline constexpr const char* live_page_policy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// One file that needs no network but `live/state` and `whatif` beside it. The same for every server.
[[nodiscard]] inline std::string live_page() {
  return pages::filled(pages::live_html, {{"style", std::string{pages::base_css} + std::string{pages::live_css}},
                                          {"script", pages::joined(pages::live_script)}});
}

} // namespace sluice

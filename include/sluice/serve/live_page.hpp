// SPDX-License-Identifier: Apache-2.0
// live_page: the page at /live, which shows the current state of the server.
#pragma once

#include "sluice/report/pages.hpp"

#include <string>

namespace sluice {

/// Restricts the page in the browser to its own style and script, and to requests to its own server.
inline constexpr const char* live_page_policy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// Returns the page as one file that needs nothing from the network except `live/state` and `whatif`. It is the same
/// for every server.
[[nodiscard]] inline std::string live_page() {
  return pages::filled(pages::live_html, {{"style", std::string{pages::base_css} + std::string{pages::live_css}},
                                          {"script", pages::joined(pages::live_script)}});
}

} // namespace sluice

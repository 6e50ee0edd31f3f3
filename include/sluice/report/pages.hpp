// SPDX-License-Identifier: Apache-2.0
// Makes pages from the files in report/pages: each page is one file that needs no network; the live page is one.
#pragma once

#if !__has_include("sluice/report/pages/files.hpp")
#error "sluice: sluice/report/pages/files.hpp is written by CMake: link sluice::sluice, or run \
cmake -DINTO=<folder> -P cmake/pages.cmake and add the folder to the include path"
#endif
#include "sluice/core/compiled.hpp"
#include "sluice/report/pages/files.hpp"

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::pages {

/// Joins the modules of a page into one script.
[[nodiscard]] std::string joined(std::span<const std::string_view> modules);

/// Replaces the placeholders of a file's text, each `{{name}}`, by values. Placeholders within values are not replaced.
[[nodiscard]] std::string filled(std::string_view text,
                                 std::initializer_list<std::pair<std::string_view, std::string_view>> values);

} // namespace sluice::pages

// live_page: the page at /live, which shows the current state of the server.
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

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/pages.inl.hpp"
#endif

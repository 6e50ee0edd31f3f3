// SPDX-License-Identifier: Apache-2.0
// Makes pages from the files in report/pages: each page is one file that needs no network.
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

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/pages.inl.hpp"
#endif

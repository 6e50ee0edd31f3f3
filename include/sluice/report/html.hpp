// SPDX-License-Identifier: Apache-2.0
// report.html: a comparison as one page that needs no network.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/html_tables.hpp"

#include <string>
#include <string_view>

namespace sluice {
namespace detail {

std::string html_facts(const ComparisonReport& report);

} // namespace detail

/// Returns the page: attainment by system, costs, latency distributions, memory and queue over time, the layers of one
/// iteration, and the tables. One file that needs no network; deterministic.
[[nodiscard]] std::string report_html(const ComparisonReport& report, std::string_view title = "Sluice comparison");

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/html.inl.hpp"
#endif

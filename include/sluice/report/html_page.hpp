// SPDX-License-Identifier: Apache-2.0
// The common shell and data of the result pages of comparisons, grids, capacities and explorations.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/html_tables.hpp"
#include "sluice/report/made_by.hpp"
#include "sluice/report/observer/json_writer.hpp"

#include <span>
#include <string>
#include <string_view>

namespace sluice::detail {

/// Returns one cell of a page's facts; empty if the text is empty.
[[nodiscard]] std::string html_fact(std::string_view label, std::string_view text);

/// Starts every page's data, as report/pages/systems.js reads it: an open object with its first keys.
void begin_page_data(JsonWriter& json, std::string_view kind, const WorkloadReport& workload);

/// Starts a row of `systems`: an open object.
void begin_page_row(JsonWriter& json, std::string_view name, bool deposit, bool control, double slo_scale);

inline constexpr std::string_view simulated_unless_told = "Simulated unless a fact above says otherwise.";

/// The parts that differ between result pages. `facts`, `sections` and `data` are HTML and JSON, the others plain text.
struct HtmlPage {
  std::string title, heading, under; ///< the browser's tab, the page's heading, the line below
  std::string facts;                 ///< made of `html_fact`
  std::string command;               ///< repeats the results; empty: unknown
  std::string sections;              ///< of report/pages/<kind>.html
  std::string data;
  std::span<const std::string_view> script; ///< the modules that draw the data
  std::string_view simulated = simulated_unless_told;
};

[[nodiscard]] std::string html_page(const HtmlPage& page, const WorkloadReport& workload, const MadeBy& made_by);

} // namespace sluice::detail

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/html_page.inl.hpp"
#endif

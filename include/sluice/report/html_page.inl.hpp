// SPDX-License-Identifier: Apache-2.0
// html_page: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/html_page.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/pages.hpp"

#include <cstdint>

namespace sluice::detail {

SLUICE_REPORT_INLINE std::string html_fact(std::string_view label, std::string_view text) {
  if (text.empty()) return {};
  const bool wide = text.size() > 40; // over two columns, since a sentence in one column makes the whole row high
  return std::string{wide ? "<div class=\"w\">" : "<div>"} + "<dt>" + escaped(label) + "</dt><dd>" + escaped(text) +
         "</dd></div>";
}

SLUICE_REPORT_INLINE void begin_page_data(JsonWriter& json, std::string_view kind, const WorkloadReport& workload) {
  json.begin_object().field("kind", kind).key("seeds").begin_array();
  for (const std::uint64_t seed : seeds_served(workload)) json.value(seed);
  json.end_array().line();
}

SLUICE_REPORT_INLINE void begin_page_row(JsonWriter& json, std::string_view name, bool deposit, bool control,
                                         double slo_scale) {
  json.line().begin_object().field("name", name).field("deposit", deposit).field("control", control);
  json.field("scale", slo_scale);
}

SLUICE_REPORT_INLINE std::string html_page(const HtmlPage& page, const WorkloadReport& workload,
                                           const MadeBy& made_by) {
  const std::string note = one_seed_note(workload);
  return pages::filled(
      pages::page_html,
      {{"title", escaped(page.title)},
       {"style", std::string{pages::base_css} + std::string{pages::results_css}},
       {"heading", escaped(page.heading)},
       {"under", escaped(page.under)},
       {"facts", page.facts},
       {"command", page.command.empty() ? std::string{} : "<pre><code>" + escaped(page.command) + "</code></pre>"},
       {"sections", page.sections},
       {"note", note.empty() ? std::string{} : "<p class=\"sub\">This is of " + escaped(note) + ".</p>"},
       {"made_by", escaped(made_by.known() ? made_by.line() : "Sluice")},
       {"simulated", escaped(page.simulated)},
       {"data", page.data},
       {"script", pages::joined(page.script)}});
}

} // namespace sluice::detail

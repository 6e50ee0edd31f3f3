// SPDX-License-Identifier: Apache-2.0
// What every page of results begins and ends with: one file that needs no network.
#pragma once

#include "sluice/report/html_script_base.hpp"
#include "sluice/report/html_script_page.hpp"
#include "sluice/report/html_script_save.hpp"
#include "sluice/report/html_style.hpp"
#include "sluice/report/html_tables.hpp"
#include "sluice/report/made_by.hpp"
#include "sluice/report/order.hpp"

#include <initializer_list>
#include <string>
#include <string_view>

namespace sluice::detail {

/// One cell of a page's facts; nothing where there is nothing to tell.
[[nodiscard]] inline std::string html_fact(std::string_view label, std::string_view text) {
  if (text.empty()) return {};
  const bool wide = text.size() > 40; // over two columns: a sentence in one column makes the whole row high
  return std::string{wide ? "<div class=\"w\">" : "<div>"} + "<dt>" + escaped(label) + "</dt><dd>" + escaped(text) +
         "</dd></div>";
}

/// Texts of a page's head. All but `facts`, which is made of `html_fact`, are as people write them.
struct HtmlHead {
  std::string title, heading, under; ///< of the browser's tab; of the page; the line below
  std::string facts;
  std::string command; ///< that repeats the results; empty: not known
};

/// A page up to its first section.
[[nodiscard]] inline std::string html_begin(const HtmlHead& head) {
  std::string out = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>";
  out += escaped(head.title) + "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>";
  out += html_style;
  out += "</style></head>\n<body><main>\n<h1>" + escaped(head.heading) + "</h1><p class=\"sub\">" +
         escaped(head.under) + "</p>\n<dl class=\"facts\">" + head.facts + "</dl>\n";
  if (!head.command.empty()) out += "<pre><code>" + escaped(head.command) + "</code></pre>\n";
  return out;
}

/// A page behind its last section. `data`: JSON, with `systems` and `seeds`; `scripts`: what draws them, behind the
/// scripts that every page has.
[[nodiscard]] inline std::string html_end(const WorkloadReport& workload, const MadeBy& made_by,
                                          std::string_view simulated, std::string_view data,
                                          std::initializer_list<std::string_view> scripts) {
  std::string out;
  if (const std::string note = one_seed_note(workload); !note.empty())
    out += "<p class=\"sub\">This is of " + escaped(note) + ".</p>\n";
  out += "<footer>Written by " + escaped(made_by.known() ? made_by.line() : "Sluice") + ". " + escaped(simulated) +
         "</footer>\n</main>\n<div id=\"tip\" role=\"status\"></div>\n"
         "<script type=\"application/json\" id=\"data\">";
  out += data;
  out += "</script>\n<script>";
  for (const std::string_view script : {html_script_base, html_script_page, html_script_save}) out += script;
  for (const std::string_view script : scripts) out += script;
  return out + "</script>\n</body></html>\n";
}

inline constexpr std::string_view simulated_unless_told = "Simulated unless a fact above says otherwise.";

} // namespace sluice::detail

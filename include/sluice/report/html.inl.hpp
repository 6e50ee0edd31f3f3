// SPDX-License-Identifier: Apache-2.0
// report.html: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/audit.hpp"
#include "sluice/report/html.hpp"
#include "sluice/report/html_data.hpp"
#include "sluice/report/pages.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace sluice::detail {

SLUICE_REPORT_INLINE std::string html_facts(const ComparisonReport& report) {
  const WorkloadReport& w = report.workload;
  std::string scales;
  for (const ReportBlock& block : blocks_of(report)) {
    const SystemReport& row = *block.rows.front();
    const std::string text = time_text(row.slo_tbt_s) + " (x" + tidy_text(block.slo_scale) + ")";
    if (scales.find(text) == std::string::npos) scales += (scales.empty() ? "" : ", ") + text;
  }
  std::string budget =
      std::to_string(w.budget_blocks) + " token blocks of " + std::to_string(w.block_tokens) + " tokens";
  if (w.kv_in_groups)
    budget = bytes_text(static_cast<double>(w.budget_bytes)) + " of KV in groups of layers";
  else if (w.budget_bytes > 0)
    budget += ", " + bytes_text(static_cast<double>(w.budget_bytes));
  std::string limits;
  if (w.batch_limit > 0) limits = std::to_string(w.batch_limit) + " requests";
  if (w.max_batch_tokens > 0) limits += (limits.empty() ? "" : ", ") + std::to_string(w.max_batch_tokens) + " tokens";
  std::string out = html_fact("trace", w.trace + (w.format.empty() ? "" : " (" + w.format + ")"));
  out += html_fact("requests", std::to_string(w.requests)) +
         html_fact(w.windows         ? "windows"
                   : w.seeds.empty() ? "seed"
                                     : "seeds",
                   recorded(w) ? "as recorded" : seeds_text(seeds_served(w)));
  if (!w.redrawn.empty()) out += html_fact("each run's part of the trace", w.redrawn);
  if (!w.counted.empty()) out += html_fact("requests that count", w.counted);
  out += html_fact("model", w.model) + html_fact("device", w.device) + html_fact("KV budget on the device", budget);
  out += html_fact("KV budget on the host",
                   w.host_budget_bytes > 0 ? bytes_text(static_cast<double>(w.host_budget_bytes)) : "not bounded");
  const std::vector<ReportBlock> blocks = blocks_of(report);
  if (!blocks.empty() && (!w.slo_classes.empty() || std::isnan(blocks.front().rows.front()->slo_tbt_s)))
    out += html_fact("SLO", slo_text(w, blocks.front()));
  else
    out +=
        html_fact("SLO: a token every (scale)", scales) + html_fact("SLO: first token within", time_text(w.slo_ttft_s));
  out += html_fact("batch limit", limits) + html_fact("times from", w.profile);
  if (w.rate_scale != 1) out += html_fact("arrival rate", "x" + tidy_text(w.rate_scale));
  for (const auto& [label, text] : w.notes) out += html_fact(label, text);
  return out;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_REPORT_INLINE std::string report_html(const ComparisonReport& report, std::string_view title) {
  const WorkloadReport& w = report.workload;
  detail::HtmlPage page;
  page.under = w.model + " on " + w.device + ", " + w.trace;
  page.title = std::string{title} + ": " + w.trace + ", " + w.model + " on " + w.device;
  page.heading = title;
  page.facts = detail::html_facts(report);
  page.command = w.command;
  const bool control =
      std::any_of(report.systems.begin(), report.systems.end(), [](const SystemReport& row) { return row.control; });
  page.sections = pages::filled(pages::comparison_html,
                                {{"control", control ? " The last row is a control: one request at a time." : ""},
                                 {"audit", audit_html(report)},
                                 {"numbers", detail::html_number_tables(report)},
                                 {"types", detail::html_type_table(report)},
                                 {"definitions", pages::definitions_html}});
  page.data = detail::html_data(report);
  page.script = pages::comparison_script;
  return detail::html_page(page, w, report.made_by);
}

} // namespace sluice

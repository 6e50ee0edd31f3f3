// SPDX-License-Identifier: Apache-2.0
// Writes the tables of report.html: every number of every row, readable without a script.
#pragma once

#include "sluice/report/by_class.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/seed_tables.hpp"

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::detail {

/// Escapes a text for HTML.
[[nodiscard]] inline std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    default:
      out += c;
    }
  }
  return out;
}

/// One column: heads, sort key, and text.
struct HtmlColumn {
  const char* group;
  const char* head;
  double (*number)(const Metrics&);
  std::string (*text)(double);
  bool marked = false; ///< leaves out refused and unfinished requests, and says how many
};

inline std::string html_gigabytes(double bytes) { return short_text(bytes / 1e9); }
inline std::string html_count(double number) { return fixed_text(number, 0); }

inline const std::vector<HtmlColumn>& service_columns() {
  using M = const Metrics&;
  static const std::vector<HtmlColumn> columns{
      {"attainment, %", "TBT", [](M m) { return m.tbt_attainment; }, percent_text},
      {"attainment, %", "per token", [](M m) { return m.per_token_attainment; }, percent_text},
      {"attainment, %", "TPOT", [](M m) { return m.tpot_attainment; }, percent_text},
      {"attainment, %", "TTFT", [](M m) { return m.ttft_attainment; }, percent_text},
      {"attainment, %", "SLO", [](M m) { return m.slo_attainment; }, percent_text},
      {"TBT, ms", "P50", [](M m) { return m.p50_tbt_s; }, milliseconds_text},
      {"TBT, ms", "P95", [](M m) { return m.p95_tbt_s; }, milliseconds_text},
      {"TBT, ms", "P99", [](M m) { return m.p99_tbt_s; }, milliseconds_text},
      {"TPOT, ms", "P50", [](M m) { return m.p50_tpot_s; }, milliseconds_text},
      {"TPOT, ms", "P95", [](M m) { return m.p95_tpot_s; }, milliseconds_text},
      {"TPOT, ms", "P99", [](M m) { return m.p99_tpot_s; }, milliseconds_text},
      {"TTFT, s", "P50", [](M m) { return m.p50_ttft_s; }, short_text},
      {"TTFT, s", "P95", [](M m) { return m.p95_ttft_s; }, short_text},
      {"TTFT, s", "P99", [](M m) { return m.p99_ttft_s; }, short_text},
      {"E2E, s", "mean", [](M m) { return m.mean_e2e_s; }, short_text, true},
      {"E2E, s", "P99", [](M m) { return m.p99_e2e_s; }, short_text, true},
      {"longest", "gap, s", [](M m) { return m.longest_gap_s; }, short_text}};
  return columns;
}
inline const std::vector<HtmlColumn>& cost_columns() {
  using M = const Metrics&;
  static const std::vector<HtmlColumn> columns{
      {"throughput", "tok/s", [](M m) { return m.throughput_tokens_per_s; }, short_text},
      {"throughput", "req/min", [](M m) { return m.throughput_requests_per_min; }, short_text},
      {"goodput", "req/s", [](M m) { return m.goodput_requests_per_s; }, short_text},
      {"device KV, %", "peak", [](M m) { return m.device_peak_share; }, percent_text},
      {"device KV, %", "mean", [](M m) { return m.device_mean_share; }, percent_text},
      {"host KV, GB", "peak", [](M m) { return static_cast<double>(m.host_peak_bytes); }, html_gigabytes},
      {"moved, GB", "in", [](M m) { return static_cast<double>(m.bytes_to_device); }, html_gigabytes},
      {"moved, GB", "out", [](M m) { return static_cast<double>(m.bytes_to_host); }, html_gigabytes},
      {"stall", "%", [](M m) { return m.stall_share; }, percent_text},
      {"times", "preempted", [](M m) { return static_cast<double>(m.times_preempted); }, html_count},
      {"planning", "plans", [](M m) { return static_cast<double>(m.plans); }, html_count},
      {"planning", "ms", [](M m) { return m.planning_s; }, milliseconds_text},
      {"planning", "P99 µs", [](M m) { return m.planning_p99_us; }, short_text},
      {"requests", "served", [](M m) { return static_cast<double>(m.served); }, html_count},
      {"requests", "refused", [](M m) { return static_cast<double>(m.refused); }, html_count},
      {"requests", "left", [](M m) { return static_cast<double>(m.unfinished); }, html_count}};
  return columns;
}

/// Returns the name of a column's number in report.json, which saved tables use too. The function finds it by calling
/// the column with all other numbers set to 0, so that the two names cannot differ.
inline std::string html_key(const HtmlColumn& column) {
  std::string key;
  Metrics metrics;
  for_each_metric(metrics, [](std::string_view, auto& number) { number = 0; });
  for_each_metric(metrics, [&](std::string_view name, auto& number) {
    number = 1;
    if (column.number(metrics) == 1) key = name;
    number = 0;
  });
  return key;
}

/// Returns the head of a text column. `key`: the column's name in a saved table, if it differs.
inline std::string html_words_head(std::string_view name, std::string_view key = {}) {
  return "<th scope=\"col\" class=\"l\"" + (key.empty() ? std::string{} : " data-key=\"" + escaped(key) + "\"") + ">" +
         escaped(name) + "</th>";
}

/// Returns the head of a sortable number column. `exact`: the numbers are not means over seeds.
inline std::string html_number_head(std::string_view name, std::string_view key, bool exact = false) {
  return "<th scope=\"col\" data-sort tabindex=\"0\"" + std::string{exact ? " data-exact" : ""} +
         (key.empty() ? std::string{} : " data-key=\"" + escaped(key) + "\"") + ">" + escaped(name) + "</th>";
}

inline std::string html_heads(const std::vector<HtmlColumn>& columns, std::string_view last) {
  std::string out = "<thead><tr class=\"groups\"><th></th>";
  for (std::size_t c = 0; c < columns.size();) {
    std::size_t end = c + 1;
    while (end < columns.size() && std::string_view{columns[end].group} == columns[c].group) ++end;
    out += "<th scope=\"colgroup\" colspan=\"" + std::to_string(end - c) + "\">" + columns[c].group + "</th>";
    c = end;
  }
  if (!last.empty()) out += "<th></th>";
  out += "</tr>\n<tr>" + html_words_head("system");
  for (const HtmlColumn& column : columns) out += html_number_head(column.head, html_key(column));
  if (!last.empty()) out += html_words_head(last);
  return out + "</tr></thead>\n";
}

/// Returns half of a mean's interval; empty for one seed, or if all seeds agree.
inline std::string html_half_width(const Interval& of, std::string (*text)(double)) {
  const std::string half = half_width_text(of, text);
  return half.empty() ? half : "<small> &plusmn;" + escaped(half) + "</small>";
}

/// Returns a number in the form that scripts read, with the ends of its interval, if any.
inline std::string html_number(const Interval& of) {
  std::string out = "data-v=\"" + (std::isfinite(of.mean) ? fixed_text(of.mean, 9) : std::string{}) + "\"";
  if (of.known()) out += " data-least=\"" + fixed_text(of.least, 9) + "\" data-most=\"" + fixed_text(of.most, 9) + "\"";
  return out;
}

/// Returns a row's mean with its interval. `out`: the requests that it leaves out; a script reads only the number.
inline std::string html_mean_cell(const Interval& of, std::string (*text)(double), double out = 0) {
  return "<td " + html_number(of) + ">" + escaped(text(of.mean)) + html_half_width(of, text) +
         (out > 0 ? "<small>" + left_out_text(out) + "</small>" : std::string{}) + "</td>";
}

inline std::string html_words_cell(std::string_view words) { return "<td class=\"l\">" + escaped(words) + "</td>"; }

/// Returns a table without groups of columns.
inline std::string html_plain_table(std::string_view caption, std::string_view heads, std::string_view rows) {
  std::string out = "<div class=\"wide\"><table class=\"long\">";
  if (!caption.empty()) out += "<caption>" + std::string{caption} + "</caption>\n";
  out += "<thead><tr>";
  out += heads;
  out += "</tr></thead><tbody>\n";
  out += rows;
  return out + "</tbody></table></div>\n";
}

inline std::string html_table(const WorkloadReport& workload, const ReportBlock& block, std::string_view what,
                              const std::vector<HtmlColumn>& columns, bool with_transfer) {
  const std::string table = block.rows.size() > 16 ? "<table class=\"long\">" : "<table>";
  std::string out = "<div class=\"wide\">" + table + "<caption><b>" + escaped(what) + ", " + title_of(block) +
                    "</b><br>" + escaped(caption_of(workload, block)) + "</caption>\n" +
                    html_heads(columns, with_transfer ? "transfer rule" : "") + "<tbody>\n";
  for (const SystemReport* row : block.rows) {
    out += row->control ? "<tr class=\"control\">" : "<tr>";
    out += "<th scope=\"row\">" + escaped(label_of(*row));
    if (!row->livelock.empty()) out += "<small>" + escaped(row->livelock) + "</small>";
    if (const SystemReport* original = original_of(block, *row))
      out += "<small>same as " + escaped(original->name) + "</small>";
    out += "</th>";
    const double missing = spread_of(*row, left_out).mean;
    for (const HtmlColumn& column : columns)
      out += html_mean_cell(spread_of(*row, column.number), column.text, column.marked ? missing : 0);
    const std::string rule = transfer_text(*row);
    if (with_transfer) out += "<td class=\"l\">" + (rule.empty() ? "&ndash;" : escaped(rule)) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

/// Returns each system's difference from the best (or the baseline), seed by seed; empty for one seed.
inline std::string html_judgement(const ReportBlock& block, const std::string& baseline) {
  const SystemReport* reference = reference_of(block, baseline);
  if (reference == nullptr || reference->per_seed.size() < 2 || block.rows.size() < 2) return {};
  std::string out = "<div class=\"keep\"><div class=\"wide\"><table class=\"long\"><caption><b>Judged in pairs, " +
                    title_of(block) + "</b><br>each seed's figure less that of " + escaped(reference->name) + ", " +
                    (reference->name == baseline ? "the baseline" : "the best here") +
                    ": mean, 95 % interval, a tie where 0 is in it</caption>\n<thead><tr class=\"groups\"><th></th>";
  std::string heads;
  for (const JudgedFigure& figure : judged_figures) {
    out +=
        "<th scope=\"colgroup\" colspan=\"3\">" + escaped(figure.name) + (figure.share ? ", points" : ", %") + "</th>";
    const std::string key{figure.key};
    heads += html_number_head("mean", key + (figure.share ? "_points" : "_percent")) +
             "<th scope=\"col\" data-told>from &hellip; to</th>" + html_words_head("judged", key + "_judged");
  }
  out += "</tr>\n<tr>" + html_words_head("system") + heads + "</tr></thead><tbody>\n";
  const std::vector<bool> held = held_in(block, baseline);
  std::size_t verdict = 0;
  bool alone = false;
  for (const SystemReport* row : block.rows) {
    const SystemReport* rival = rival_of(block, *row, baseline);
    if (rival == nullptr) continue;
    out += std::string{row->control ? "<tr class=\"control\">" : "<tr>"} + "<th scope=\"row\">" +
           escaped(label_of(*row)) + "</th>";
    for (const JudgedFigure& figure : judged_figures) {
      const Paired of = judged(*row, *rival, figure);
      const double scale = judged_scale(figure, *row, *rival);
      const bool there = of.pairs() > 0;
      Interval scaled; // for saved tables; the page shows it in the next column
      if (there) scaled.mean = scale * of.difference.mean;
      if (of.judged()) scaled.least = scale * of.difference.least, scaled.most = scale * of.difference.most;
      out += "<td " + html_number(scaled) + ">" + (there ? signed_text(scale * of.difference.mean) : "&ndash;") +
             "</td><td>" +
             (of.judged()
                  ? signed_text(scale * of.difference.least) + " &hellip; " + signed_text(scale * of.difference.most)
                  : std::string{"&ndash;"}) +
             "</td><td class=\"l\">" + escaped(verdict_of(of, figure.less));
      const bool star = of.judged() && !of.tie() && !held[verdict];
      ++verdict;
      alone = alone || star;
      out += std::string{star ? " *" : ""} + "</td>";
    }
    out += "</tr>\n";
  }
  out += "</tbody></table></div>";
  return out + (alone ? "<p class=\"sub\">" + escaped(holm_note(held.size())) + "</p>" : std::string{}) + "</div>";
}

/// Returns the service that each SLO class received, and its verdicts; empty if there is one SLO.
inline std::string html_class_tables(const ComparisonReport& report, const ReportBlock& block) {
  std::string out;
  for (std::size_t i = 0; i < report.workload.slo_classes.size(); ++i) {
    const ComparisonReport part = class_report(report, i);
    for (const ReportBlock& own : blocks_of(part))
      if (own.deposit == block.deposit && own.slo_scale == block.slo_scale)
        out += "<div class=\"keep\">" +
               html_table(part.workload, own, "What users got, " + class_title(report.workload, i, part),
                          service_columns(), false) +
               "</div>" + html_judgement(own, report.baseline);
  }
  return out;
}

/// Returns what no schedule exceeds in a block, if the bound was asked for, and how far an unproven bound might fall.
inline std::string html_possible(const ComparisonReport& report, const ReportBlock& block) {
  const auto unproven = [](const PossibleShare& bound) {
    return bound.proven() ? std::string{}
                          : " (not proven the least: its program has an optimum of " +
                                escaped(percent_text(bound.found)) + " % at the least)";
  };
  const auto told = [&](const PossibleShare& bound) {
    return escaped(percent_text(bound.most)) + " %" + unproven(bound);
  };
  for (const PossibleShares& one : report.possible)
    if (one.slo_scale == block.slo_scale)
      return "<p class=\"sub\">No schedule has an SLO attainment above <b>" + escaped(percent_text(one.any.most)) +
             " %</b>" + unproven(one.any) +
             ", even if it knows every arrival and length; without pauses the bound is " + told(one.no_pauses) +
             ", with KV only on the device " + told(one.device) + ", with neither pauses nor the link " +
             told(one.device_no_pauses) + ".</p>\n";
  return {};
}

/// Returns two tables for each block, more tables for each SLO class, then the block's refusals and remarks.
inline std::string html_number_tables(const ComparisonReport& report) {
  std::string out;
  for (const ReportBlock& block : blocks_of(report)) {
    const std::optional<std::string> rule = shared_transfer(block);
    const std::string took = "What it took" + (rule && !rule->empty() ? ", transfers by " + *rule : std::string{});
    out += "<div class=\"keep\">" + html_table(report.workload, block, "What users got", service_columns(), false) +
           html_possible(report, block) + "</div>" + html_judgement(block, report.baseline) +
           html_class_tables(report, block) + "<div class=\"keep\">" +
           html_table(report.workload, block, took, cost_columns(), !rule) + "</div>";
    std::string notes;
    for (const std::string& remark : remarks_of(block)) notes += "<li>" + escaped(remark) + "</li>";
    if (!notes.empty()) out += "<ul class=\"defs sub\">" + notes + "</ul>\n";
  }
  return out;
}

/// Returns each system's engine type, once for each name and deposit.
inline std::string html_type_table(const ComparisonReport& report) {
  std::string rows;
  std::vector<const SystemReport*> told;
  for (const SystemReport& system : report.systems) {
    bool known = false;
    for (const SystemReport* other : told) known |= other->name == system.name && other->deposit == system.deposit;
    if (known) continue;
    told.push_back(&system);
    rows += "<tr><th scope=\"row\">" + escaped(system.name) + "</th>" + html_words_cell(system.deposit ? "yes" : "no") +
            "<td class=\"code\"><code>" + escaped(system.engine_type) + "</code></td></tr>\n";
  }
  return html_plain_table("", html_words_head("system") + html_words_head("deposit") + html_words_head("engine"), rows);
}

} // namespace sluice::detail

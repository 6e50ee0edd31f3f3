// SPDX-License-Identifier: Apache-2.0
// Writes the tables of report.html: every number of every row, readable without a script.
#pragma once

#include "sluice/report/columns.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/seed_tables.hpp"

#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
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

inline constexpr auto html_service =
    columns_of("tbt_attainment", "per_token_attainment", "tpot_attainment", "ttft_attainment", "slo_attainment",
               "p50_tbt_s", "p95_tbt_s", "p99_tbt_s", "p50_tpot_s", "p95_tpot_s", "p99_tpot_s", "p50_ttft_s",
               "p95_ttft_s", "p99_ttft_s", "mean_e2e_s", "p99_e2e_s", "longest_gap_s");
inline constexpr auto html_costs =
    columns_of("throughput_tokens_per_s", "throughput_requests_per_min", "goodput_requests_per_s", "device_peak_share",
               "device_mean_share", "host_peak_bytes", "bytes_to_device", "bytes_to_host", "stall_share",
               "times_preempted", "plans", "planning_s", "planning_p99_us", "served", "refused", "unfinished");

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

inline std::string html_heads(std::span<const MetricColumn> columns, std::string_view last) {
  std::string out = "<thead><tr class=\"groups\"><th></th>";
  for (std::size_t c = 0; c < columns.size();) {
    std::size_t end = c + 1;
    while (end < columns.size() && columns[end].group == columns[c].group) ++end;
    out +=
        "<th scope=\"colgroup\" colspan=\"" + std::to_string(end - c) + "\">" + std::string{columns[c].group} + "</th>";
    c = end;
  }
  if (!last.empty()) out += "<th></th>";
  out += "</tr>\n<tr>" + html_words_head("system");
  for (const MetricColumn& column : columns) out += html_number_head(column.head, column.key);
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

/// Returns a row's mean of a metric with its interval, the requests that it leaves out, and below it the figure of the
/// trace as recorded, if that ran.
inline std::string html_metric_cell(const SystemReport& row, const MetricColumn& column, NumberText text) {
  std::string cell = html_mean_cell(spread_of(row, column), text, column.leaves_out ? mean_left_out(row) : 0);
  if (!row.as_recorded) return cell;
  const double recorded = column(*row.as_recorded);
  const std::string out = column.leaves_out ? left_out_text(left_out(*row.as_recorded)) : std::string{};
  cell.insert(cell.rfind("</td>"), "<br><small>" + escaped(text(recorded)) + out + " as recorded</small>");
  return cell.insert(4, "data-recorded=\"" + (std::isfinite(recorded) ? fixed_text(recorded, 9) : "") + "\" ");
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
                              std::span<const MetricColumn> columns, bool with_transfer) {
  const std::string table = block.rows.size() > 16 ? "<table class=\"long\">" : "<table>";
  std::string out = "<div class=\"wide\">" + table + "<caption><b>" + escaped(what) + ", " + title_of(block) +
                    "</b><br>" + escaped(caption_of(workload, block)) + "</caption>\n" +
                    html_heads(columns, with_transfer ? "transfer rule" : "") + "<tbody>\n";
  for (const SystemReport* row : block.rows) {
    out += row->control ? "<tr class=\"control\">" : "<tr>";
    out += "<th scope=\"row\">" + escaped(label_of(*row, true));
    if (!row->livelock.empty()) out += "<small>" + escaped(row->livelock) + "</small>";
    if (const SystemReport* original = original_of(block, *row))
      out += "<small>same as " + escaped(original->name) + "</small>";
    out += "</th>";
    for (const MetricColumn& column : columns) out += html_metric_cell(*row, column, number_text(column.unit));
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
  const std::vector<Judgement> judgements = judgements_of(block, baseline);
  std::string out = "<div class=\"keep\"><div class=\"wide\"><table class=\"long\"><caption><b>Judged in pairs, " +
                    title_of(block) + "</b><br>each " + (reference->windows ? "window" : "seed") +
                    "'s figure less that of " + escaped(label_of(*reference)) + ", " +
                    (reference->name == baseline ? "the baseline" : "the best here") +
                    (some_difference_has_interval(judgements) ? ": mean and interval; a tie: " : ": mean; a tie: ") +
                    tie_means(judgements) + "</caption>\n<thead><tr class=\"groups\"><th></th>";
  std::string heads;
  for (std::size_t i = 0; i < std::size(judged_figures); ++i) {
    const JudgedFigure& figure = judged_figures[i];
    const bool intervals = has_intervals(judgements, i);
    out += std::string{"<th scope=\"colgroup\" colspan=\""} + (intervals ? "3" : "2") + "\">" + escaped(figure.name) +
           (figure.share ? ", points" : ", %") + "</th>";
    const std::string key{figure.key};
    heads += html_number_head("mean", key + (figure.share ? "_points" : "_percent")) +
             (intervals ? "<th scope=\"col\" data-told>from &hellip; to</th>" : "") +
             html_words_head("judged", key + "_judged");
  }
  out += "</tr>\n<tr>" + html_words_head("system") + heads + "</tr></thead><tbody>\n";
  for (const Judgement& one : judgements) {
    if (one.figure == 0)
      out += std::string{one.row->control ? "<tr class=\"control\">" : "<tr>"} + "<th scope=\"row\">" +
             escaped(label_of(*one.row)) + "</th>";
    out += "<td " + html_number(one.scaled()) + ">" + one.mean_text("&ndash;") + "</td>";
    if (has_intervals(judgements, one.figure)) out += "<td>" + one.range_text(" &hellip; ", "&ndash;") + "</td>";
    out += html_words_cell(one.verdict());
    if (one.figure + 1 == std::size(judged_figures)) out += "</tr>\n";
  }
  out += "</tbody></table></div>";
  for (const std::string& note : {holm_note(judgements), too_few_note(reference->per_seed.size(), reference->windows)})
    if (!note.empty()) out += "<p class=\"sub\">" + escaped(note) + "</p>";
  return out + "</div>";
}

/// Returns the service that each SLO class received, and its verdicts; empty if there is one SLO.
inline std::string html_class_tables(const ComparisonReport& report, const ReportBlock& block) {
  std::string out;
  for (std::size_t i = 0; i < report.workload.slo_classes.size(); ++i) {
    const ComparisonReport part = class_report(report, i);
    for (const ReportBlock& own : blocks_of(part))
      if (own.deposit == block.deposit && own.slo_scale == block.slo_scale)
        out += "<div class=\"keep\">" +
               html_table(part.workload, own, "What users got, " + class_title(report.workload, i, part), html_service,
                          false) +
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
    out += "<div class=\"keep\">" + html_table(report.workload, block, "What users got", html_service, false) +
           html_possible(report, block) + "</div>" + html_judgement(block, report.baseline) +
           html_class_tables(report, block) + "<div class=\"keep\">" +
           html_table(report.workload, block, took, html_costs, !rule) + "</div>";
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

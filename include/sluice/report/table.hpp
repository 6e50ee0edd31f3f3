// SPDX-License-Identifier: Apache-2.0
// Writes tables for a terminal: service and costs.
#pragma once

#include "sluice/report/columns.hpp"
#include "sluice/report/number_text.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/seed_tables.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {

// One seed. Texts are ASCII, so a microsecond is a "us".
inline constexpr auto text_service =
    columns_of("tbt_attainment", "per_token_attainment", "tpot_attainment", "ttft_attainment", "slo_attainment",
               "p50_tbt_s", "p95_tbt_s", "p99_tbt_s", "p99_tpot_s", "p50_ttft_s", "p95_ttft_s", "p99_ttft_s",
               "mean_e2e_s", "p99_e2e_s", "longest_gap_s");
inline constexpr auto text_costs = columns_of(
    "throughput_tokens_per_s", metric_column("goodput_requests_per_s", "throughput", "goodput"), "device_peak_share",
    "device_mean_share", "bytes_to_device", "bytes_to_host", "stall_share", "times_preempted", "plans", "planning_s",
    metric_column("planning_p99_us", "planning", "P99 us"), "served", "refused", "unfinished");
// Several seeds: as many columns as fit into 120 characters, because each is twice as wide.
inline constexpr auto seeded_service =
    columns_of("tbt_attainment", "slo_attainment", "p99_tbt_s", "p99_ttft_s", "mean_e2e_s", "longest_gap_s");
inline constexpr auto seeded_costs = columns_of("throughput_tokens_per_s", "device_mean_share", "bytes_to_device",
                                                "stall_share", "times_preempted", "refused");

/// Returns a block's table: numbers of one seed, or means with half of their intervals, and in a line of its own the
/// figures of the trace as recorded: in the same cells they would not fit. Only the first of equal rows is there.
/// `rules`: the last column names each row's transfer rule.
inline TextTable metric_table(const ReportBlock& block, std::span<const MetricColumn> columns, bool rules) {
  std::vector<TextTable::Column> heads{{"", "system"}};
  for (const MetricColumn& column : columns) heads.push_back({std::string{column.group}, std::string{column.head}});
  if (rules) heads.push_back({"transfer", "rule"});
  TextTable table(std::move(heads));
  for (const SystemReport* of : distinct_rows(block)) {
    const SystemReport& row = *of;
    if (row.control && of != block.rows.front()) table.rule();
    std::vector<std::string> cells{label_of(row)};
    const std::string out = left_out_text(mean_left_out(row));
    for (const MetricColumn& column : columns)
      cells.push_back(spread_text(spread_of(row, column), number_text(column.unit, !row.per_seed.empty())) +
                      (column.leaves_out ? out : std::string{}));
    if (rules) cells.push_back(row.metrics.bytes_moved > 0 ? row.transfer : "-");
    table.row(std::move(cells));
    if (!row.as_recorded) continue;
    std::vector<std::string> recorded{"  as recorded"};
    for (const MetricColumn& column : columns)
      recorded.push_back(number_text(column.unit)(column(*row.as_recorded)) +
                         (column.leaves_out ? left_out_text(left_out(*row.as_recorded)) : std::string{}));
    recorded.resize(recorded.size() + (rules ? 1 : 0));
    table.row(std::move(recorded));
  }
  return table;
}

/// Returns a block's table of service figures, and with several seeds its verdicts.
inline std::string service_text(const ComparisonReport& report, const ReportBlock& block) {
  const bool seeds = report.workload.seeds.size() > 1;
  const bool marked = std::any_of(block.rows.begin(), block.rows.end(),
                                  [](const SystemReport* row) { return mean_left_out(*row) > 0; });
  return (seeds ? metric_table(block, seeded_service, false) : metric_table(block, text_service, false)).text() +
         same_text(block) + (marked ? std::string{left_out_note} + "\n" : std::string{}) +
         (seeds ? judgement_text(block, report.baseline) : std::string{});
}

/// Returns the same tables for each SLO class; empty if there is one SLO.
inline std::string classes_text(const ComparisonReport& report, const ReportBlock& block) {
  std::string out;
  for (std::size_t i = 0; i < report.workload.slo_classes.size(); ++i) {
    const ComparisonReport part = class_report(report, i);
    for (const ReportBlock& own : blocks_of(part))
      if (own.deposit == block.deposit && own.slo_scale == block.slo_scale)
        out += "\nWhat users got, " + class_title(report.workload, i, part) + ", " + title_of(block) + "\n" +
               service_text(part, own);
  }
  return out;
}

} // namespace detail

/// Returns every block as two tables of at most about 140 characters a line, in plain ASCII except for the names' own
/// characters. With several seeds there are three tables of about 120, whose cells are means "+-" half of their 95 %
/// interval. With SLO classes, each class's service tables follow.
[[nodiscard]] inline std::string table_text(const ComparisonReport& report) {
  std::string out;
  for (const ReportBlock& block : blocks_of(report)) {
    const std::string rule = shared_transfer(block).value_or("");
    const bool seeds = report.workload.seeds.size() > 1;
    out += caption_of(report.workload, block) + "\n\nWhat users got, " + title_of(block) +
           (seeds ? detail::seeded_title(report.workload) : "") + "\n";
    out += detail::service_text(report, block) + detail::classes_text(report, block);
    out += "\nWhat it took, " + title_of(block) + (rule.empty() ? "" : ", transfers by " + rule) + "\n";
    out += (seeds ? detail::metric_table(block, detail::seeded_costs, false)
                  : detail::metric_table(block, detail::text_costs, !shared_transfer(block)))
               .text();
    const bool has_control =
        std::any_of(block.rows.begin(), block.rows.end(), [](const SystemReport* row) { return row->control; });
    if (has_control) out += "control: one request at a time, all resident; to read the others by, not ranked\n";
    for (const SystemReport* row : block.rows)
      if (!row->livelock.empty()) out += row->name + ": " + row->livelock + "; ended there, with what it had served\n";
    for (const std::string& remark : remarks_of(block)) out += remark + "\n";
    if (const std::string note = one_seed_note(report.workload); !note.empty()) out += note + "\n";
    out += "\n";
  }
  return out;
}

} // namespace sluice

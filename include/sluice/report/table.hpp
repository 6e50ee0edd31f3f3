// SPDX-License-Identifier: Apache-2.0
// Writes tables for a terminal: service and costs.
#pragma once

#include "sluice/report/by_class.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/seed_tables.hpp"
#include "sluice/report/text_table.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {

inline TextTable service_table(const ReportBlock& block) {
  TextTable table({{"", "system"},
                   {"attainment, %", "TBT"},
                   {"attainment, %", "per token"},
                   {"attainment, %", "TPOT"},
                   {"attainment, %", "TTFT"},
                   {"attainment, %", "SLO"},
                   {"TBT, ms", "P50"},
                   {"TBT, ms", "P95"},
                   {"TBT, ms", "P99"},
                   {"TPOT, ms", "P99"},
                   {"TTFT, s", "P50"},
                   {"TTFT, s", "P95"},
                   {"TTFT, s", "P99"},
                   {"E2E, s", "mean"},
                   {"E2E, s", "P99"},
                   {"longest", "gap, s"}});
  for (std::size_t i = 0; i < block.rows.size(); ++i) {
    const SystemReport& row = *block.rows[i];
    const Metrics& m = row.metrics;
    if (row.control && i > 0) table.rule();
    const std::string out = left_out_text(left_out(m));
    table.row({label_of(row), percent_text(m.tbt_attainment), percent_text(m.per_token_attainment),
               percent_text(m.tpot_attainment), percent_text(m.ttft_attainment), percent_text(m.slo_attainment),
               short_text(1e3 * m.p50_tbt_s), short_text(1e3 * m.p95_tbt_s), short_text(1e3 * m.p99_tbt_s),
               short_text(1e3 * m.p99_tpot_s), short_text(m.p50_ttft_s), short_text(m.p95_ttft_s),
               short_text(m.p99_ttft_s), short_text(m.mean_e2e_s) + out, short_text(m.p99_e2e_s) + out,
               short_text(m.longest_gap_s)});
  }
  return table;
}

inline TextTable cost_table(const ReportBlock& block) {
  const bool one_rule = shared_transfer(block).has_value();
  std::vector<TextTable::Column> columns{{"", "system"},           {"throughput", "tok/s"},  {"throughput", "goodput"},
                                         {"device KV, %", "peak"}, {"device KV, %", "mean"}, {"moved, GB", "in"},
                                         {"moved, GB", "out"},     {"stall", "%"},           {"times", "preempted"},
                                         {"planning", "plans"},    {"planning", "ms"},       {"planning", "P99 us"},
                                         {"requests", "served"},   {"requests", "refused"},  {"requests", "left"}};
  if (!one_rule) columns.push_back({"transfer", "rule"});
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < block.rows.size(); ++i) {
    const SystemReport& row = *block.rows[i];
    const Metrics& m = row.metrics;
    if (row.control && i > 0) table.rule();
    std::vector<std::string> cells{label_of(row),
                                   short_text(m.throughput_tokens_per_s),
                                   short_text(m.goodput_requests_per_s),
                                   percent_text(m.device_peak_share),
                                   percent_text(m.device_mean_share),
                                   short_text(static_cast<double>(m.bytes_to_device) / 1e9),
                                   short_text(static_cast<double>(m.bytes_to_host) / 1e9),
                                   percent_text(m.stall_share),
                                   std::to_string(m.times_preempted),
                                   std::to_string(m.plans),
                                   milliseconds_text(m.planning_s),
                                   short_text(m.planning_p99_us),
                                   std::to_string(m.served),
                                   std::to_string(m.refused),
                                   std::to_string(m.unfinished)};
    if (!one_rule) cells.push_back(m.bytes_moved > 0 ? row.transfer : "-");
    table.row(std::move(cells));
  }
  return table;
}

/// Returns a block's table of service figures, and with several seeds its verdicts.
inline std::string service_text(const ComparisonReport& report, const ReportBlock& block) {
  const bool seeds = report.workload.seeds.size() > 1;
  const bool marked = std::any_of(block.rows.begin(), block.rows.end(),
                                  [](const SystemReport* row) { return spread_of(*row, left_out).mean > 0; });
  return (seeds ? seeded_table(block, seeded_service) : service_table(block)).text() +
         (marked ? std::string{left_out_note} + "\n" : std::string{}) +
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

/// Returns every block as two tables of at most about 140 columns, in plain ASCII except for the names' own characters.
/// With several seeds there are three tables, whose cells are means "+-" half of their 95 % interval. With SLO classes,
/// each class's service tables follow.
[[nodiscard]] inline std::string table_text(const ComparisonReport& report) {
  std::string out;
  for (const ReportBlock& block : blocks_of(report)) {
    const std::string rule = shared_transfer(block).value_or("");
    const bool seeds = report.workload.seeds.size() > 1;
    out += caption_of(report.workload, block) + "\n\nWhat users got, " + title_of(block) +
           (seeds ? detail::seeded_title(report.workload) : "") + "\n";
    out += detail::service_text(report, block) + detail::classes_text(report, block);
    out += "\nWhat it took, " + title_of(block) + (rule.empty() ? "" : ", transfers by " + rule) + "\n";
    out += (seeds ? detail::seeded_table(block, detail::seeded_costs) : detail::cost_table(block)).text();
    const bool has_control =
        std::any_of(block.rows.begin(), block.rows.end(), [](const SystemReport* row) { return row->control; });
    if (has_control) out += "control: one request at a time, all resident; to read the others by, not ranked\n";
    for (const SystemReport* row : block.rows)
      if (const SystemReport* original = original_of(block, *row))
        out += row->name + ": same as " + original->name + " in every figure\n";
    for (const SystemReport* row : block.rows)
      if (!row->livelock.empty()) out += row->name + ": " + row->livelock + "; ended there, with what it had served\n";
    for (const std::string& remark : remarks_of(block)) out += remark + "\n";
    if (const std::string note = one_seed_note(report.workload); !note.empty()) out += note + "\n";
    out += "\n";
  }
  return out;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Tables for a terminal: what users got, and what it cost.
#pragma once

#include "sluice/report/order.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Text in columns under two lines of heads: the first names groups, the second their members. The first column is
/// aligned left, the others right.
class TextTable {
 public:
  struct Column {
    std::string group; ///< equal neighbours share one head
    std::string head;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Adds a row, one cell a column. Cells are ASCII, or text that takes one place for each byte.
  void row(std::vector<std::string> cells) {
    SLUICE_ASSERT(cells.size() == columns_.size(), "one cell a column");
    rows_.push_back(std::move(cells));
  }
  /// Draws a line above the next row.
  void rule() { rules_.push_back(rows_.size()); }

  [[nodiscard]] std::string text() const {
    const std::vector<std::size_t> widths = fit();
    std::string out = groups(widths);
    std::vector<std::string> heads;
    for (const Column& column : columns_) heads.push_back(column.head);
    out += line(heads, widths);
    const std::string ruler = rule_line(widths);
    out += ruler;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (std::find(rules_.begin(), rules_.end(), i) != rules_.end()) out += ruler;
      out += line(rows_[i], widths);
    }
    return out;
  }

 private:
  /// Two spaces before each column, one more where a group begins.
  [[nodiscard]] std::size_t space(std::size_t column) const {
    if (column == 0) return 0;
    return columns_[column].group == columns_[column - 1].group && !columns_[column].group.empty() ? 1 : 3;
  }
  [[nodiscard]] std::size_t group_end(std::size_t begin) const {
    std::size_t end = begin + 1;
    while (end < columns_.size() && !columns_[begin].group.empty() && columns_[end].group == columns_[begin].group)
      ++end;
    return end;
  }
  [[nodiscard]] std::vector<std::size_t> fit() const {
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      std::size_t width = columns_[c].head.size();
      for (const auto& cells : rows_) width = std::max(width, cells[c].size());
      widths.push_back(width);
    }
    for (std::size_t c = 0; c < columns_.size(); c = group_end(c)) { // a group's head may be wider than its members
      std::size_t width = 0;
      for (std::size_t i = c; i < group_end(c); ++i) width += widths[i] + (i > c ? space(i) : 0);
      if (columns_[c].group.size() > width) widths[group_end(c) - 1] += columns_[c].group.size() - width;
    }
    return widths;
  }
  [[nodiscard]] std::string groups(const std::vector<std::size_t>& widths) const {
    std::string out;
    for (std::size_t c = 0; c < columns_.size(); c = group_end(c)) {
      std::size_t width = 0;
      for (std::size_t i = c; i < group_end(c); ++i) width += widths[i] + (i > c ? space(i) : 0);
      const std::string& head = columns_[c].group;
      out.append(space(c) + width - head.size(), ' ');
      out += head;
    }
    return trimmed(out) + '\n';
  }
  [[nodiscard]] std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
    std::string out;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      out.append(space(c), ' ');
      const std::string pad(widths[c] - cells[c].size(), ' ');
      out += c == 0 ? cells[c] + pad : pad + cells[c];
    }
    return trimmed(out) + '\n';
  }
  [[nodiscard]] std::string rule_line(const std::vector<std::size_t>& widths) const {
    std::size_t width = 0;
    for (std::size_t c = 0; c < widths.size(); ++c) width += space(c) + widths[c];
    return std::string(width, '-') + '\n';
  }
  static std::string trimmed(std::string text) {
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> rules_;
};

namespace detail {

inline TextTable service_table(const ReportBlock& block) {
  TextTable table({{"", "system"},
                   {"attainment, %", "TBT"},
                   {"attainment, %", "per token"},
                   {"attainment, %", "TPOT"},
                   {"attainment, %", "TTFT"},
                   {"TBT, ms", "P50"},
                   {"TBT, ms", "P95"},
                   {"TBT, ms", "P99"},
                   {"TPOT, ms", "P50"},
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
    table.row({label_of(row), percent_text(m.tbt_attainment), percent_text(m.per_token_attainment),
               percent_text(m.tpot_attainment), percent_text(m.ttft_attainment), short_text(1e3 * m.p50_tbt_s),
               short_text(1e3 * m.p95_tbt_s), short_text(1e3 * m.p99_tbt_s), short_text(1e3 * m.p50_tpot_s),
               short_text(1e3 * m.p99_tpot_s), short_text(m.p50_ttft_s), short_text(m.p95_ttft_s),
               short_text(m.p99_ttft_s), short_text(m.mean_e2e_s), short_text(m.p99_e2e_s),
               short_text(m.longest_gap_s)});
  }
  return table;
}

inline TextTable cost_table(const ReportBlock& block) {
  const bool one_rule = shared_transfer(block).has_value();
  std::vector<TextTable::Column> columns{{"", "system"},           {"throughput", "tok/s"},  {"throughput", "req/min"},
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
                                   short_text(m.throughput_requests_per_min),
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

} // namespace detail

/// Every block as two tables of at most about 130 columns, in plain ASCII but for the names' own characters.
[[nodiscard]] inline std::string table_text(const ComparisonReport& report) {
  std::string out;
  for (const ReportBlock& block : blocks_of(report)) {
    const std::string rule = shared_transfer(block).value_or("");
    out += caption_of(report.workload, block) + "\n\nWhat users got, " + title_of(block) + "\n";
    out += detail::service_table(block).text() + "\nWhat it took, " + title_of(block) +
           (rule.empty() ? "" : ", transfers by " + rule) + "\n";
    out += detail::cost_table(block).text();
    const bool has_control =
        std::any_of(block.rows.begin(), block.rows.end(), [](const SystemReport* row) { return row->control; });
    if (has_control) out += "control: one request at a time, all resident; to read the others by, not ranked\n";
    for (const SystemReport* row : block.rows)
      if (const SystemReport* original = original_of(block, *row))
        out += row->name + ": same as " + original->name + " in every figure\n";
    for (const SystemReport* row : block.rows)
      if (!row->livelock.empty()) out += row->name + ": " + row->livelock + "; ended there, with what it had served\n";
    for (const std::string& remark : remarks_of(block)) out += remark + "\n";
    out += "\n";
  }
  return out;
}

} // namespace sluice

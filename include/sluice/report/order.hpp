// SPDX-License-Identifier: Apache-2.0
// Blocks of a report: the rows that may be compared with each other, in the order in which they are shown.
#pragma once

#include "sluice/report/number_text.hpp"
#include "sluice/report/report.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Rows of one SLO scale, all with a deposit or all without: a system with one is never compared with others without.
struct ReportBlock {
  bool deposit = false;
  double slo_scale = 1;
  std::vector<const SystemReport*> rows; ///< by TBT attainment, the control row last
};

/// The blocks of a report: those without deposit first, then by SLO scale. Pointers into `report`.
[[nodiscard]] inline std::vector<ReportBlock> blocks_of(const ComparisonReport& report) {
  std::vector<ReportBlock> blocks;
  for (const SystemReport& system : report.systems) {
    auto block = std::find_if(blocks.begin(), blocks.end(), [&](const ReportBlock& b) {
      return b.deposit == system.deposit && b.slo_scale == system.slo_scale;
    });
    if (block == blocks.end()) block = blocks.insert(blocks.end(), {system.deposit, system.slo_scale, {}});
    block->rows.push_back(&system);
  }
  std::stable_sort(blocks.begin(), blocks.end(), [](const ReportBlock& a, const ReportBlock& b) {
    return a.deposit != b.deposit ? b.deposit : a.slo_scale < b.slo_scale;
  });
  const auto rank = [](const SystemReport* row) {
    if (row->control) return -2.0;
    return std::isnan(row->metrics.tbt_attainment) ? -1.0 : row->metrics.tbt_attainment;
  };
  for (ReportBlock& block : blocks)
    std::stable_sort(block.rows.begin(), block.rows.end(),
                     [&](const SystemReport* a, const SystemReport* b) { return rank(a) > rank(b); });
  return blocks;
}

/// Trace, seed, model, device, budget and SLO of a block, as every table must name them.
[[nodiscard]] inline std::string caption_of(const WorkloadReport& workload, const ReportBlock& block) {
  const SystemReport& row = *block.rows.front();
  std::string text = workload.trace + ", " + std::to_string(workload.requests) + " requests, seed " +
                     std::to_string(workload.seed) + "; " + workload.model + " on " + workload.device + ", " +
                     std::to_string(workload.budget_blocks) + " token blocks of KV";
  if (workload.budget_bytes > 0) text += " (" + bytes_text(static_cast<double>(workload.budget_bytes)) + ")";
  text += "; SLO " + (std::isinf(row.slo_tbt_s) ? std::string{"none"} : time_text(row.slo_tbt_s)) + " a token (scale " +
          tidy_text(block.slo_scale) + "), first token " + time_text(row.slo_ttft_s);
  return text;
}

[[nodiscard]] inline std::string title_of(const ReportBlock& block) {
  return block.deposit ? "with token deposit" : "without deposit";
}

/// What a reader must know of a block's rows, one line each; rows of which the same is true share it.
[[nodiscard]] inline std::vector<std::string> remarks_of(const ReportBlock& block) {
  std::vector<std::pair<std::string, std::string>> remarks; // what, and of whom
  const auto add = [&](const std::string& what, const std::string& name) {
    for (auto& [known, names] : remarks)
      if (known == what) {
        names += ", " + name;
        return;
      }
    remarks.emplace_back(what, name);
  };
  for (const SystemReport* row : block.rows) {
    if (!row->note.empty()) add(row->note, row->name);
    for (const auto& [reason, count] : row->refusals)
      add("refused " + std::to_string(count) + ": " + reason, row->name);
  }
  std::vector<std::string> lines;
  for (const auto& [what, names] : remarks) lines.push_back(what + " (" + names + ")");
  return lines;
}

/// The rule that all rows share, or nothing.
[[nodiscard]] inline std::string shared_transfer(const ReportBlock& block) {
  for (const SystemReport* row : block.rows)
    if (row->transfer != block.rows.front()->transfer) return {};
  return block.rows.front()->transfer;
}

} // namespace sluice

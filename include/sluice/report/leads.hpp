// SPDX-License-Identifier: Apache-2.0
// Leads: which systems lead in which figure, in words, and with whom they are in a tie.
#pragma once

#include "sluice/report/order.hpp"
#include "sluice/report/seed_tables.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// The best system of a block by one figure, and what the seeds say of the others. A claim over all others needs no
/// correction for their number: every single pair must differ.
struct Lead {
  const JudgedFigure* by;
  std::vector<const SystemReport*> rows; ///< the best, then those in a tie with it, in the order of the table
  std::size_t behind = 0;                ///< systems that are worse than the best, beyond a tie
};

/// Returns whether a row takes part: no control, no oracle, no livelocked row, no part of another row, and no
/// duplicate.
[[nodiscard]] inline bool can_lead(const ReportBlock& block, const SystemReport& row) {
  return !row.control && !row.oracle && row.livelock.empty() && row.name.find('/') == std::string::npos &&
         original_of(block, row) == nullptr;
}

/// Returns the lead in each figure of `judged_figures` that a block's rows have. Empty for one seed, which cannot tell
/// a lead from a tie, and for one system.
[[nodiscard]] inline std::vector<Lead> leads_of(const ReportBlock& block) {
  std::vector<const SystemReport*> rows;
  for (const SystemReport* row : block.rows)
    if (row->per_seed.size() > 1 && can_lead(block, *row)) rows.push_back(row);
  std::vector<Lead> leads;
  for (const JudgedFigure& by : judged_figures) {
    const auto better = [&](const SystemReport& row, const SystemReport& than) { // in the mean over the seeds
      const JudgedValues values = judged_values(row, than, by);
      const double own = mean_of(values.row), other = mean_of(values.reference);
      return std::isnan(other) || (by.less ? own < other : own > other);
    };
    Lead lead{&by, {}};
    for (const SystemReport* row : rows)
      if (lead.rows.empty() || better(*row, *lead.rows.front())) lead.rows = {row};
    for (const SystemReport* row : rows) {
      if (row == lead.rows.front()) continue;
      const Paired of = judged(*row, *lead.rows.front(), by);
      if (of.pairs() == 0) continue; // the workload has no such figure
      const bool differs = of.judged() && !of.tie(), worse = (of.difference.mean < 0) != by.less;
      if (differs && worse)
        ++lead.behind;
      else
        lead.rows.push_back(row);
    }
    if (!lead.rows.empty() && lead.rows.size() + lead.behind > 1) leads.push_back(std::move(lead));
  }
  return leads;
}

/// "OrbitFlow leads with 76.7 %, beyond a tie with each of the other 11". A lead is stated only beyond a tie.
[[nodiscard]] inline std::string lead_text(const Lead& lead) {
  constexpr std::size_t most_named = 3;
  const double mean = mean_of(seed_values(*lead.rows.front(), [&](const Metrics& m) { return m.*lead.by->figure; }));
  const std::string best = lead.rows.front()->name, has = lead.by->share ? percent_text(mean) + " %" : time_text(mean);
  const std::string others = lead.behind == 1 ? "the other" : "the other " + std::to_string(lead.behind);
  if (lead.rows.size() == 1)
    return best + " leads with " + has + ", beyond a tie with " + (lead.behind == 1 ? "" : "each of ") + others;
  const std::size_t tied = lead.rows.size() - 1, named = tied <= most_named ? tied : most_named - 1;
  std::string ties;
  for (std::size_t i = 1; i <= named; ++i) ties += (i == 1 ? "" : i == tied ? " and " : ", ") + lead.rows[i]->name;
  if (named < tied) ties += " and " + std::to_string(tied - named) + " more";
  return "no lead: " + best + ", with " + has + ", is in a tie with " + ties +
         (lead.behind == 0 ? "" : "; ahead of " + others);
}

/// Returns who leads in what, a line for each block and figure; empty if nobody can lead.
[[nodiscard]] inline std::string leads_text(const ComparisonReport& report) {
  const std::vector<ReportBlock> blocks = blocks_of(report);
  const bool scales = std::any_of(blocks.begin(), blocks.end(), [&](const ReportBlock& block) {
    return block.slo_scale != blocks.front().slo_scale;
  });
  std::string out;
  for (const ReportBlock& block : blocks) {
    std::string lines;
    for (const Lead& lead : leads_of(block)) lines += "  " + std::string{lead.by->name} + ": " + lead_text(lead) + "\n";
    if (!lines.empty())
      out += "Who leads " + title_of(block) + (scales ? ", SLO x" + tidy_text(block.slo_scale) : std::string{}) +
             ", in " + std::to_string(report.workload.seeds.size()) + " " + seeds_or_windows(report.workload.windows) +
             ":\n" + lines;
  }
  const std::string note = too_few_note(report.workload.seeds.size(), report.workload.windows);
  return out.empty() || note.empty() ? out : out + "  " + note + "\n";
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
#include "compare/verdicts.hpp"

#include "sluice/report/observer/metrics.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/seed_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

std::string Verdicts::text(const SystemReport& row, std::size_t figure) const {
  const auto found = of.find(&row);
  return found == of.end() ? "-" : found->second[figure];
}

std::string Verdicts::note(const std::string& baseline, std::string_view table) const {
  if (of.empty()) return {};
  std::string text =
      fmt::format("judged: against {}, {}; points, or % of its mean E2E; a tie: {}\n",
                  baseline.empty() && !reference.empty() ? reference + ", first in the mean over all comparisons"
                  : baseline.empty()                     ? "the best of the same comparison"
                                                         : baseline + " of the same comparison",
                  windows ? "window by window" : "seed by seed", tie);
  if (table.find("better *") != std::string_view::npos || table.find("worse *") != std::string_view::npos)
    text += fmt::format(
        "* differs in its comparison, but not among all {} of the table together (Holm): about one in 20 such differs "
        "by chance\n",
        all);
  return text;
}

namespace {

/// Returns the system that ranks first over several blocks together, by its mean figures; empty if none is in all of
/// them without a livelock. One reference for all: with each block's own, a column of verdicts would compare with a
/// different system in every row.
std::string best_over(const std::vector<const ReportBlock*>& blocks) {
  std::vector<SystemReport> means; // of what `ranks_before` reads
  for (const SystemReport* first : blocks.front()->rows) {
    SystemReport mean;
    mean.name = first->name;
    std::vector<Metrics> all;
    for (const ReportBlock* block : blocks)
      for (const SystemReport* row : block->rows)
        if (row->name == first->name && row->livelock.empty()) all.push_back(row->metrics);
    const bool part = first->name.find('/') != std::string::npos; // one tenant's
    if (first->control || first->oracle || part || all.size() != blocks.size()) continue;
    mean.metrics = mean_metrics(all);
    means.push_back(std::move(mean));
  }
  const auto best = std::min_element(means.begin(), means.end(), ranks_before);
  return best == means.end() ? std::string{} : best->name;
}

/// The same for all comparisons; empty for a single block, whose best is the reference. Rows with a deposit and rows
/// without are never compared with each other, but have one reference.
std::string best_over(std::span<const Ran> all) {
  std::vector<std::vector<ReportBlock>> held;
  std::vector<const ReportBlock*> blocks;
  for (const Ran& ran : all) held.push_back(blocks_of(ran.report));
  for (const std::vector<ReportBlock>& of : held)
    for (const ReportBlock& block : of) blocks.push_back(&block);
  return blocks.size() < 2 ? std::string{} : best_over(blocks);
}

} // namespace

Verdicts verdicts_of(std::span<const Ran> all, const std::string& baseline) {
  Verdicts verdicts;
  verdicts.windows = all.front().report.workload.windows;
  verdicts.reference = baseline.empty() ? best_over(all) : baseline;
  std::vector<detail::Judgement> judgements;
  // `row_of`: maps a row of the report to the corresponding row of `all`.
  const auto judge_all = [&](const ComparisonReport& report, auto&& row_of) {
    for (const ReportBlock& block : blocks_of(report)) {
      if (const SystemReport* reference = reference_of(block, verdicts.reference))
        verdicts.of[row_of(reference)].fill("reference");
      for (detail::Judgement& one : detail::judgements_of(block, verdicts.reference)) {
        one.row = row_of(one.row);
        judgements.push_back(std::move(one));
      }
    }
  };
  for (const Ran& ran : all) {
    if (ran.report.workload.seeds.size() < 2) continue;
    judge_all(ran.report, [](const SystemReport* row) { return row; });
    for (std::size_t k = 0; k < ran.report.workload.slo_classes.size(); ++k) {
      const ComparisonReport part = class_report(ran.report, k);
      judge_all(part, [&](const SystemReport* row) {
        return &ran.report.systems[static_cast<std::size_t>(row - part.systems.data())].classes[k];
      });
    }
  }
  detail::hold(judgements); // all together, not block by block
  verdicts.all = judgements.size();
  verdicts.tie = detail::tie_means(judgements);
  for (const detail::Judgement& one : judgements) {
    const char* verdict = !one.of.judged() ? "" : one.of.tie() ? " tie" : one.better() ? " better" : " worse";
    verdicts.of[one.row][one.figure] = one.mean_text("-") + verdict + (one.alone() ? " *" : "");
  }
  return verdicts;
}

} // namespace compared

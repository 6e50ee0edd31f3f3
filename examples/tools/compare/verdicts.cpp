// SPDX-License-Identifier: Apache-2.0
#include "compare/verdicts.hpp"

#include "sluice/report/order.hpp"
#include "sluice/report/seed_tables.hpp"

#include <fmt/format.h>

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
  std::string text = fmt::format(
      "judged: against {} of the same comparison, seed by seed; points, or % of its mean E2E; a tie: 0 is in the 95 % "
      "interval of the difference\n",
      baseline.empty() ? "the best" : baseline);
  if (table.find("better *") != std::string_view::npos || table.find("worse *") != std::string_view::npos)
    text += fmt::format(
        "* differs in its comparison, but not among all {} of the table together (Holm): about one in 20 such differs "
        "by chance\n",
        all);
  return text;
}

Verdicts verdicts_of(std::span<const Ran> all, const std::string& baseline) {
  Verdicts verdicts;
  std::vector<detail::Judgement> judgements;
  // `row_of`: maps a row of the report to the corresponding row of `all`.
  const auto judge_all = [&](const ComparisonReport& report, auto&& row_of) {
    for (const ReportBlock& block : blocks_of(report)) {
      if (const SystemReport* reference = reference_of(block, baseline))
        verdicts.of[row_of(reference)].fill("reference");
      for (detail::Judgement& one : detail::judgements_of(block, baseline)) {
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
  for (const detail::Judgement& one : judgements) {
    const char* verdict = !one.of.judged() ? "" : one.of.tie() ? " tie" : one.better() ? " better" : " worse";
    verdicts.of[one.row][one.figure] = one.mean_text("-") + verdict + (one.alone() ? " *" : "");
  }
  return verdicts;
}

} // namespace compared

// SPDX-License-Identifier: Apache-2.0
// Audit: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/audit.hpp"
#include "sluice/report/html_tables.hpp"
#include "sluice/report/leads.hpp"
#include "sluice/report/number_text.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/seed_tables.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace sluice::detail {

/// Returns the names of the rows that a condition is true of, each once: "A, B and 3 more".
template <class Is>
[[nodiscard]] std::string names_of(const ComparisonReport& report, Is&& is) {
  constexpr std::size_t most_named = 6;
  std::vector<std::string> names;
  for (const SystemReport& row : report.systems)
    if (is(row) && std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most_named) text += " and " + std::to_string(names.size() - most_named) + " more";
  return text;
}

/// Returns whether differences can be told from chance, and of which part of a trace they are.
inline void audit_samples(const WorkloadReport& w, std::vector<AuditLine>& lines) {
  constexpr std::size_t enough = 8; // fewer have intervals that are too narrow for skewed times (docs/metrics.md)
  const bool trace = !w.format.empty() && w.format != "generated";
  const std::string more = trace ? "--limit N --windows 8" : "--seeds 1..8";
  AuditLine chance{"Can differences be told from chance?", w.seeds.size() >= enough, seeds_of(w)};
  if (!chance.holds) chance.answer += w.seeds.size() < 2 ? ": one run has no interval; " + more : ": few; " + more;
  lines.push_back(std::move(chance));
  if (!trace) return;
  AuditLine part{"Is it the whole trace, or a part?", w.windows && w.seeds.size() > 1, w.redrawn};
  if (!w.windows && !w.redrawn.empty())
    part.answer += ": such workloads vary less than parts of the trace do; --windows 8";
  if (w.seeds.size() < 2) part.answer = "the first " + std::to_string(w.requests) + " requests; --windows 8";
  lines.push_back(std::move(part));
}

/// Returns what each system got before it was judged, and whom it serves.
inline void audit_systems(const ComparisonReport& report, std::vector<AuditLine>& lines) {
  const auto ranked = [](const SystemReport& row) { return !row.control && row.livelock.empty(); };
  const std::string untuned =
      names_of(report, [](const SystemReport& row) { return row.tuned.empty() && !row.control; });
  lines.push_back({"Did every system get its own best numbers?", untuned.empty(),
                   untuned.empty() ? "each chose on other workloads (its line says which numbers)"
                                   : "one budget of " + std::to_string(report.workload.max_batch_tokens) +
                                         " tokens, and default numbers, for " + untuned + "; --tune"});
  const std::string growing = names_of(report, [&](const SystemReport& row) { return ranked(row) && grows(row); });
  lines.push_back({"Does the load leave a steady state?", growing.empty(),
                   growing.empty() ? "no queue grows to the end"
                                   : "the queue grows to the end of " + growing +
                                         ": latencies depend on the number of requests; a lower rate, or --capacity"});
  double counted = 0; // the longest of all rows
  bool brief = false;
  for (const SystemReport& row : report.systems) {
    brief = brief || row.short_horizon;
    if (row.metrics.horizon_s > counted) counted = row.metrics.horizon_s;
  }
  if (counted > 0)
    lines.push_back(
        {"Is the horizon longer than requests take?", !brief,
         brief ? "no: goodput is the rate of arrivals; a longer --horizon" : time_text(counted) + " are counted"});
  constexpr double noticed = 0.01;
  double least = 1, most = 0; // what no system serves is no choice of one
  for (const SystemReport& row : report.systems) {
    if (!ranked(row)) continue;
    least = std::min(least, row.metrics.left_out_tokens_share);
    most = std::max(most, row.metrics.left_out_tokens_share);
  }
  const std::string refusing = names_of(report, [&](const SystemReport& row) {
    return ranked(row) && row.metrics.left_out_tokens_share >= least + noticed;
  });
  lines.push_back({"Is everybody served?", refusing.empty(),
                   refusing.empty()
                       ? "all systems leave out as many prompt tokens, within a point"
                       : refusing + " leave out up to " + percent_text(most) + " % of the prompt tokens, others " +
                             percent_text(least) + " %: look at left-out-tokens beside every figure"});
  const std::string stuck = names_of(report, [](const SystemReport& row) { return !row.livelock.empty(); });
  lines.push_back({"Did every run end?", stuck.empty(),
                   stuck.empty() ? "yes" : stuck + " livelocked: such rows have partial figures and are not ranked"});
  const std::string oracles = names_of(report, [](const SystemReport& row) { return row.oracle; });
  const std::string judge =
      names_of(report, [&](const SystemReport& row) { return row.oracle && row.name == report.baseline; });
  lines.push_back({"Does nobody know the future?", judge.empty(),
                   oracles.empty() ? "no policy says that it reads the length of an answer to come"
                   : judge.empty() ? oracles + ": marked, never the reference nor in the lead"
                                   : judge + " is the baseline, and knows how long each answer will be"});
}

/// Returns where times come from, and whether the machine and the planning are paid for.
inline void audit_machine(const ComparisonReport& report, std::vector<AuditLine>& lines) {
  const WorkloadReport& w = report.workload;
  double beyond = 0;
  bool grid = false;
  for (const SystemReport& row : report.systems)
    if (row.beyond_grid) grid = true, beyond = std::max(beyond, row.beyond_grid->share());
  AuditLine times{"Are the times measured?", grid && !(beyond > 0), w.times.empty() ? w.profile : w.times};
  if (beyond > 0) times.answer += ": up to " + percent_text(beyond) + " % of a run's iterations lie beyond its grid";
  if (!grid) times.answer += ", no grid of measured kernels; a folder of them as --profile, or say so";
  lines.push_back(std::move(times));
  if (!w.cautions.empty()) {
    std::string all;
    for (const std::string& caution : w.cautions) all += (all.empty() ? "" : "; ") + caution;
    lines.push_back({"Is the machine the real one?", false, all});
  }
  const std::string unpaid = names_of(report, [](const SystemReport& row) { return !row.unpaid.remark().empty(); });
  lines.push_back({"Is planning paid for?", unpaid.empty(),
                   unpaid.empty() ? "no decision computes ten times longer than it is charged"
                                  : unpaid + " compute longer than they are charged"});
  bool full = false; // streamed weights move bytes, too, whatever KV there is
  for (const SystemReport& row : report.systems) {
    const Metrics& m = row.metrics;
    full = full || (!row.control && (m.times_preempted > 0 || m.blocks_to_host > 0 || m.refused > 0));
  }
  lines.push_back({"Is memory the limit?", full,
                   full ? "requests are preempted, refused or moved"
                        : "memory never fills, so no system can gain by moving KV; fewer --kv-blocks, or more load"});
}

/// Returns in which figure somebody leads, block by block.
inline void audit_leads(const ComparisonReport& report, std::vector<AuditLine>& lines) {
  for (const ReportBlock& block : blocks_of(report)) {
    const std::vector<Lead> leads = leads_of(block);
    if (leads.empty()) continue;
    std::string text;
    bool one = true;
    for (const Lead& lead : leads) {
      one = one && lead.rows.size() == 1 && lead.rows.front() == leads.front().rows.front();
      text += (text.empty() ? "" : "; ") + std::string{lead.by->name} + ": " + lead_text(lead);
    }
    const std::vector<Judgement> judgements = judgements_of(block, report.baseline);
    const auto alone = std::count_if(judgements.begin(), judgements.end(), [](const auto& of) { return of.alone(); });
    if (alone > 0)
      text += "; " + std::to_string(alone) + " of " + std::to_string(judgements.size()) +
              " differences do not hold together (Holm)";
    lines.push_back({block.deposit ? "Does one system lead in all figures, with deposit?"
                                   : "Does one system lead in all figures, without deposit?",
                     one && alone == 0, std::move(text)});
  }
}

/// Returns the lines, those that do not hold first.
inline std::vector<AuditLine> sorted_audit(const ComparisonReport& report) {
  std::vector<AuditLine> lines = audit_of(report);
  std::stable_sort(lines.begin(), lines.end(),
                   [](const AuditLine& a, const AuditLine& b) { return a.holds < b.holds; });
  return lines;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_REPORT_INLINE std::vector<AuditLine> audit_of(const ComparisonReport& report) {
  std::vector<AuditLine> lines;
  detail::audit_samples(report.workload, lines);
  detail::audit_systems(report, lines);
  detail::audit_machine(report, lines);
  detail::audit_leads(report, lines);
  return lines;
}

SLUICE_REPORT_INLINE std::string audit_text(const ComparisonReport& report) {
  const std::vector<AuditLine> lines = detail::sorted_audit(report);
  const auto holding = std::count_if(lines.begin(), lines.end(), [](const AuditLine& line) { return line.holds; });
  std::string text = "What a reviewer would ask: " + std::to_string(holding) + " of " + std::to_string(lines.size()) +
                     " answers stand\n";
  for (const AuditLine& line : lines)
    text += (line.holds ? "  ok   " : "  ASK  ") + std::string{line.question} + " " + line.answer + "\n";
  return text;
}

SLUICE_REPORT_INLINE std::string audit_html(const ComparisonReport& report) {
  std::string rows;
  for (const AuditLine& line : detail::sorted_audit(report))
    rows += "<tr><td>" + std::string{line.holds ? "stands" : "<b>open</b>"} + "</td><th scope=\"row\">" +
            detail::escaped(line.question) + "</th><td>" + detail::escaped(line.answer) + "</td></tr>\n";
  return "<table class=\"audit\"><thead><tr><th></th><th>question</th><th>answer</th></tr></thead><tbody>\n" + rows +
         "</tbody></table>\n";
}

} // namespace sluice

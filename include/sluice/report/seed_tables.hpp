// SPDX-License-Identifier: Apache-2.0
// Writes tables of several seeds for a terminal: means with intervals, and paired comparisons.
#pragma once

#include "sluice/report/seeds.hpp"
#include "sluice/report/text_table.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace sluice::detail {

/// One column of a table of means: heads, one run's number, its text.
struct SeededColumn {
  const char* group;
  const char* head;
  double (*number)(const Metrics&);
  std::string (*text)(double);
  bool marked = false; ///< leaves out refused and unfinished requests, and says how many
};

inline std::string gigabytes_text(double bytes) { return short_text(bytes / 1e9); }

// Fewer columns than for one seed, because each is twice as wide.
inline constexpr SeededColumn seeded_service[] = {
    {"attainment, %", "TBT", [](const Metrics& m) { return m.tbt_attainment; }, percent_text},
    {"attainment, %", "SLO", [](const Metrics& m) { return m.slo_attainment; }, percent_text},
    {"attainment, %", "TTFT", [](const Metrics& m) { return m.ttft_attainment; }, percent_text},
    {"attainment, %", "per token", [](const Metrics& m) { return m.per_token_attainment; }, percent_text},
    {"goodput", "req/s", [](const Metrics& m) { return m.goodput_requests_per_s; }, short_text},
    {"TBT, ms", "P99", [](const Metrics& m) { return m.p99_tbt_s; }, milliseconds_text},
    {"TTFT, s", "P99", [](const Metrics& m) { return m.p99_ttft_s; }, short_text},
    {"E2E, s", "mean", [](const Metrics& m) { return m.mean_e2e_s; }, short_text, true},
    {"longest", "gap, s", [](const Metrics& m) { return m.longest_gap_s; }, short_text}};
inline constexpr SeededColumn seeded_costs[] = {
    {"throughput", "tok/s", [](const Metrics& m) { return m.throughput_tokens_per_s; }, short_text},
    {"device KV, %", "mean", [](const Metrics& m) { return m.device_mean_share; }, percent_text},
    {"moved, GB", "in", [](const Metrics& m) { return static_cast<double>(m.bytes_to_device); }, gigabytes_text},
    {"moved, GB", "out", [](const Metrics& m) { return static_cast<double>(m.bytes_to_host); }, gigabytes_text},
    {"stall", "%", [](const Metrics& m) { return m.stall_share; }, percent_text},
    {"times", "preempted", [](const Metrics& m) { return static_cast<double>(m.times_preempted); }, short_text},
    {"planning", "plans", [](const Metrics& m) { return static_cast<double>(m.plans); }, short_text},
    {"requests", "served", [](const Metrics& m) { return static_cast<double>(m.served); }, short_text},
    {"requests", "refused", [](const Metrics& m) { return static_cast<double>(m.refused); }, short_text}};

[[nodiscard]] inline std::string seeded_title(const WorkloadReport& workload) {
  return ": means of " + std::to_string(workload.seeds.size()) + " seeds +- half of the 95 % interval";
}

/// Returns half of an interval's width, with as many decimals as its mean: "0.4" for "23.1". Empty without an interval
/// or width.
template <class Text>
[[nodiscard]] std::string half_width_text(const Interval& of, Text&& text) {
  if (!of.known() || of.least == of.most) return {};
  const std::string mean = text(of.mean);
  std::string half = text(of.half_width());
  if (mean.find('e') != std::string::npos || half.find('<') != std::string::npos) return half;
  const std::size_t point = mean.find('.');
  const int decimals = point == std::string::npos ? 0 : static_cast<int>(mean.size() - point) - 1;
  std::string told = fixed_text(std::strtod(half.c_str(), nullptr), decimals);
  if (told.find_first_not_of("0.") != std::string::npos) return told;
  told.back() = '1';
  return "<" + told;
}

/// "73.9 +-8.9"; only the mean if all seeds have the same value.
template <class Text>
[[nodiscard]] std::string spread_text(const Interval& of, Text&& text) {
  const std::string half = half_width_text(of, text);
  return half.empty() ? std::string{text(of.mean)} : text(of.mean) + " +-" + half;
}

template <std::size_t N>
[[nodiscard]] TextTable seeded_table(const ReportBlock& block, const SeededColumn (&columns)[N]) {
  std::vector<TextTable::Column> heads{{"", "system"}};
  for (const SeededColumn& column : columns) heads.push_back({column.group, column.head});
  TextTable table(std::move(heads));
  for (std::size_t i = 0; i < block.rows.size(); ++i) {
    const SystemReport& row = *block.rows[i];
    if (row.control && i > 0) table.rule();
    std::vector<std::string> cells{label_of(row)};
    const std::string out = left_out_text(spread_of(row, left_out).mean);
    for (const SeededColumn& column : columns)
      cells.push_back(spread_text(spread_of(row, column.number), column.text) + (column.marked ? out : std::string{}));
    table.row(std::move(cells));
  }
  return table;
}

/// Formats a number with its sign: "+3.1", "-12".
[[nodiscard]] inline std::string signed_text(double value) { return (value < 0 ? "" : "+") + short_text(value); }

/// Returns the scale in which people read a difference: points for a share, otherwise per cent of the reference's
/// mean in this comparison.
[[nodiscard]] inline double judged_scale(const JudgedFigure& figure, const SystemReport& row,
                                         const SystemReport& reference) {
  return 100 / (figure.share ? 1.0 : std::abs(mean_interval(judged_values(row, reference, figure).reference).mean));
}

/// Returns whether each verdict of a block's table, row by row and figure by figure, holds with all of them considered
/// together (Holm).
[[nodiscard]] inline std::vector<bool> held_in(const ReportBlock& block, const std::string& baseline) {
  std::vector<double> chances;
  for (const SystemReport* row : block.rows)
    if (const SystemReport* rival = rival_of(block, *row, baseline))
      for (const JudgedFigure& figure : judged_figures) chances.push_back(judged(*row, *rival, figure).p);
  return hold_together(chances);
}
[[nodiscard]] inline std::string holm_note(std::size_t verdicts) {
  return "* differs in this comparison, but not among all " + std::to_string(verdicts) +
         " of the table together (Holm): about one in 20 such differs by chance";
}

/// Returns the systems' differences from the best (or the baseline), seed by seed. Empty if there is no reference.
[[nodiscard]] inline std::string judgement_text(const ReportBlock& block, const std::string& baseline) {
  const SystemReport* reference = reference_of(block, baseline);
  if (reference == nullptr || block.rows.size() < 2) return {};
  std::vector<TextTable::Column> heads{{"", "system"}};
  for (const JudgedFigure& figure : judged_figures) {
    const std::string group = std::string{figure.name} + (figure.share ? ", points" : ", %");
    for (const char* head : {"mean", "from .. to", "judged"}) heads.push_back({group, head});
  }
  const std::vector<bool> held = held_in(block, baseline);
  std::size_t verdict = 0, alone = 0;
  TextTable table(std::move(heads));
  for (const SystemReport* row : block.rows) {
    const SystemReport* rival = rival_of(block, *row, baseline);
    if (rival == nullptr) continue;
    if (row->control) table.rule();
    std::vector<std::string> cells{label_of(*row)};
    for (const JudgedFigure& figure : judged_figures) {
      const Paired of = judged(*row, *rival, figure);
      const double scale = judged_scale(figure, *row, *rival);
      cells.push_back(of.pairs() > 0 ? signed_text(scale * of.difference.mean) : "-");
      cells.push_back(of.judged()
                          ? signed_text(scale * of.difference.least) + " .. " + signed_text(scale * of.difference.most)
                          : "-");
      const bool differs = of.judged() && !of.tie(), holds = held[verdict++];
      if (differs && !holds) ++alone;
      cells.push_back(verdict_of(of, figure.less) + (differs && !holds ? " *" : ""));
    }
    table.row(std::move(cells));
  }
  return "\nAgainst " + reference->name + ", " + (reference->name == baseline ? "the baseline" : "the best here") +
         ", seed by seed: differences with their 95 % interval (a tie: 0 is in it), and the seeds in which the system "
         "is better\n" +
         table.text() + (alone == 0 ? std::string{} : holm_note(held.size()) + "\n");
}

} // namespace sluice::detail

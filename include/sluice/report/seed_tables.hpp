// SPDX-License-Identifier: Apache-2.0
// Writes tables of several seeds for a terminal: means with intervals, and paired comparisons.
#pragma once

#include "sluice/report/number_text.hpp"
#include "sluice/report/seeds.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace sluice::detail {

[[nodiscard]] inline std::string seeded_title(const WorkloadReport& workload) {
  return ": means of " + std::to_string(workload.seeds.size()) + " " + seeds_or_windows(workload.windows) +
         (some_interval(workload.windows, workload.seeds.size()) ? " +- half of the 95 % interval" : "");
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

/// Formats a number with its sign: "+3.1", "-12".
[[nodiscard]] inline std::string signed_text(double value) { return (value < 0 ? "" : "+") + short_text(value); }

/// Returns the scale in which people read a difference: points for a share, otherwise per cent of the reference's
/// mean in this comparison.
[[nodiscard]] inline double judged_scale(const JudgedFigure& figure, const SystemReport& row,
                                         const SystemReport& reference) {
  return 100 / (figure.share ? 1.0 : std::abs(mean_of(judged_values(row, reference, figure).reference)));
}

/// A row's difference from its rival in one figure.
struct Judgement {
  const SystemReport* row;
  std::size_t figure; ///< in `judged_figures`
  Paired of;
  double scale;      ///< of `judged_scale`
  bool held = false; ///< the difference holds with all judgements of the table considered together (Holm)

  [[nodiscard]] const JudgedFigure& by() const { return judged_figures[figure]; }
  [[nodiscard]] bool differs() const { return of.judged() && !of.tie(); }
  [[nodiscard]] bool alone() const { return differs() && !held; }
  [[nodiscard]] bool better() const { return of.first_is_larger() != by().less; }
  /// The difference as people read it; its ends only if there is an interval.
  [[nodiscard]] Interval scaled() const {
    Interval told{scale * of.difference.mean};
    if (of.difference.known()) told.least = scale * of.difference.least, told.most = scale * of.difference.most;
    return told;
  }
  /// "+3.1", and "+1.2 .. +5.0" with `to` between; `none` for one that does not exist.
  [[nodiscard]] std::string mean_text(const char* none) const {
    return of.pairs() > 0 ? signed_text(scaled().mean) : none;
  }
  [[nodiscard]] std::string range_text(const char* to, const char* none) const {
    return of.difference.known() ? signed_text(scaled().least) + to + signed_text(scaled().most) : none;
  }
  [[nodiscard]] std::string verdict() const { return verdict_of(of, by().less) + (alone() ? " *" : ""); }
  /// "better 7/8 *": the verdict where room is short.
  [[nodiscard]] std::string short_verdict() const {
    if (of.pairs() == 0) return "-";
    const std::string wins = std::to_string(by().less ? of.losses : of.wins) + "/" + std::to_string(of.pairs());
    const char* word = !of.judged() ? "" : of.tie() ? "tie " : better() ? "better " : "worse ";
    return word + wins + (alone() ? " *" : "");
  }
};

/// Decides which of a table's differences hold together.
inline void hold(std::vector<Judgement>& judgements) {
  std::vector<double> chances;
  for (const Judgement& one : judgements) chances.push_back(one.of.p);
  const std::vector<bool> held = hold_together(chances);
  for (std::size_t i = 0; i < judgements.size(); ++i) judgements[i].held = held[i];
}

/// Returns whether a difference of the table has an interval.
[[nodiscard]] inline bool some_difference_has_interval(const std::vector<Judgement>& judgements) {
  return std::any_of(judgements.begin(), judgements.end(),
                     [](const Judgement& one) { return one.of.difference.known(); });
}

/// The same of one figure's differences.
[[nodiscard]] inline bool has_intervals(const std::vector<Judgement>& judgements, std::size_t figure) {
  return std::any_of(judgements.begin(), judgements.end(),
                     [&](const Judgement& one) { return one.figure == figure && one.of.difference.known(); });
}

/// Says what makes a verdict a tie: of the differences with an interval, and of those without.
[[nodiscard]] inline std::string tie_means(const std::vector<Judgement>& judgements) {
  std::string signs = "the counts won and lost can be chance (sign test, 95 %)";
  const std::string zero = "0 is in the 95 % interval";
  if (!some_difference_has_interval(judgements)) return signs;
  const bool by_signs_too = std::any_of(judgements.begin(), judgements.end(), [](const Judgement& one) {
    return one.of.judged() && !one.of.difference.known();
  });
  return by_signs_too ? zero + "; without an interval, " + signs : zero;
}

/// Returns the judgements of every row that has a rival, row by row and figure by figure, as one table.
[[nodiscard]] inline std::vector<Judgement> judgements_of(const ReportBlock& block, const std::string& baseline) {
  std::vector<Judgement> all;
  for (const SystemReport* row : block.rows)
    if (const SystemReport* rival = rival_of(block, *row, baseline))
      for (std::size_t i = 0; i < std::size(judged_figures); ++i)
        all.push_back({row, i, judged(*row, *rival, judged_figures[i]), judged_scale(judged_figures[i], *row, *rival)});
  hold(all);
  return all;
}

/// Explains the star of a difference that does not hold together with the table's others; empty if there is none.
[[nodiscard]] inline std::string holm_note(const std::vector<Judgement>& judgements) {
  if (std::none_of(judgements.begin(), judgements.end(), [](const Judgement& one) { return one.alone(); })) return {};
  return "* differs in this comparison, but not among all " + std::to_string(judgements.size()) +
         " of the table together (Holm): about one in 20 such differs by chance";
}

/// Returns the systems' differences from the best (or the baseline), seed by seed. Empty if there is no reference.
[[nodiscard]] inline std::string judgement_text(const ReportBlock& block, const std::string& baseline) {
  const SystemReport* reference = reference_of(block, baseline);
  if (reference == nullptr || block.rows.size() < 2) return {};
  const std::vector<Judgement> judgements = judgements_of(block, baseline);
  std::vector<Judgement> shown;
  for (const Judgement& one : judgements) // of equal rows only the first
    if (original_of(block, *one.row) == nullptr) shown.push_back(one);
  if (shown.empty()) return {};
  const bool intervals = some_difference_has_interval(shown);
  std::vector<TextTable::Column> heads{{"", "system"}};
  for (std::size_t i = 0; i < std::size(judged_figures); ++i) {
    const JudgedFigure& figure = judged_figures[i];
    const std::string group = std::string{figure.name} + (figure.share ? ", points" : ", %");
    for (const char* head : {has_intervals(shown, i) ? "from .. to" : "mean", "judged"}) heads.push_back({group, head});
  }
  TextTable table(std::move(heads));
  std::vector<std::string> cells;
  for (const Judgement& one : shown) {
    if (one.figure == 0) {
      if (one.row->control) table.rule();
      cells = {label_of(*one.row)};
    }
    cells.push_back(one.of.difference.known()          ? one.range_text(" .. ", "-")
                    : has_intervals(shown, one.figure) ? "mean " + one.mean_text("-")
                                                       : one.mean_text("-"));
    cells.push_back(one.short_verdict());
    if (one.figure + 1 == std::size(judged_figures)) table.row(std::exchange(cells, {}));
  }
  std::string notes;
  for (const std::string& note : {holm_note(judgements), too_few_note(reference->per_seed.size(), reference->windows)})
    if (!note.empty()) notes += note + "\n";
  return "\nAgainst " + label_of(*reference) + ", " + (reference->name == baseline ? "the baseline" : "the best here") +
         (reference->windows ? ", window by window: " : ", seed by seed: ") +
         (intervals ? "95 % intervals of the differences" : "mean differences") + ", and the " +
         seeds_or_windows(reference->windows) + " won; a tie: " + tie_means(shown) + "\n" + table.text() + notes;
}

} // namespace sluice::detail

// SPDX-License-Identifier: Apache-2.0
// Rows of several seeds: one row for many runs, its intervals, and paired comparisons.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/columns.hpp"
#include "sluice/report/observer/metrics.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/statistics/paired.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Returns every number's mean over the runs that have it; counts are rounded.
[[nodiscard]] Metrics mean_metrics(std::span<const Metrics> each);

/// Makes one row from the runs of one system, one per seed, in the order of `seeds`. Curves, series and the iteration
/// are the first seed's, since no user experiences a mean of curves.
[[nodiscard]] SystemReport joined(std::vector<SystemReport> runs, const std::vector<std::uint64_t>& seeds,
                                  bool windows = false);

/// Returns a figure for every seed; for a single run, that run's figure.
template <class Figure>
[[nodiscard]] std::vector<double> seed_values(const SystemReport& row, Figure&& figure) {
  std::vector<double> values;
  for (const Metrics& metrics : row.per_seed) values.push_back(static_cast<double>(figure(metrics)));
  if (row.per_seed.empty()) values.push_back(static_cast<double>(figure(row.metrics)));
  return values;
}

/// Returns the mean of a figure over the row's seeds, and its interval.
template <class Figure>
[[nodiscard]] Interval spread_of(const SystemReport& row, Figure&& figure) {
  return mean_interval(seed_values(row, figure));
}

/// Returns the mean of a metric's values over seeds, or windows of a trace, and its interval if the metric has one.
[[nodiscard]] inline Interval metric_interval(std::string_view metric, std::span<const double> values, bool windows) {
  return has_interval(metric, windows, values.size()) ? mean_interval(values) : Interval{mean_of(values)};
}
/// The same of a table's column.
[[nodiscard]] inline Interval spread_of(const SystemReport& row, const MetricColumn& column) {
  return metric_interval(column.key, seed_values(row, column), row.windows);
}

/// Returns the number of requests that E2E leaves out, in the mean over the row's seeds.
[[nodiscard]] inline double mean_left_out(const SystemReport& row) { return mean_of(seed_values(row, left_out)); }

/// Returns the reference row of a block: the baseline if it is present, otherwise the best ranked row; null if there is
/// none. Never an oracle, unless it is the baseline, and never the row of one tenant among several ("Mirage/opt-13b"),
/// which is a part of another row.
[[nodiscard]] const SystemReport* reference_of(const ReportBlock& block, std::string_view baseline);

/// Returns the row with which `row` is compared: the reference, or, for a tenant's row, the reference's row of the same
/// tenant. Null if that is the row itself.
[[nodiscard]] const SystemReport* rival_of(const ReportBlock& block, const SystemReport& row,
                                           std::string_view baseline);

/// A figure by which pairs of rows are judged.
struct JudgedFigure {
  std::string_view key, name; ///< the key in report.json; the name for people
  double Metrics::*figure;
  bool share;         ///< reported in points, otherwise in per cent of the reference's mean
  bool less = false;  ///< smaller is better
  bool waits = false; ///< refused requests wait in it: counted until the common end of both runs
  /// The fewest pairs of seeds with which a table prints the interval of the mean difference, as in `LeastForInterval`.
  std::size_t least_pairs = 0;
};
inline constexpr JudgedFigure judged_figures[] = {
    {"slo_attainment", "SLO attainment", &Metrics::slo_attainment, true, false, false, 8},
    {"tbt_attainment", "TBT attainment", &Metrics::tbt_attainment, true},
    // Not "of all", which counts until each run's own end: two runs are judged by one end.
    {"mean_e2e_all_s", "mean E2E to a common end", &Metrics::mean_e2e_all_s, false, true, true},
};
/// Returns the index of a metric's figure in `judged_figures`. A key of no judged figure does not compile.
[[nodiscard]] consteval std::size_t judged_figure(std::string_view key) {
  std::size_t at = 0;
  while (judged_figures[at].key != key) ++at; // beyond the last: no constant expression
  return at;
}

/// The values of a row and of its reference that are compared, seed by seed.
struct JudgedValues {
  std::vector<double> row, reference;
};
[[nodiscard]] JudgedValues judged_values(const SystemReport& row, const SystemReport& reference,
                                         const JudgedFigure& by);

/// Returns whether the two are equal in half of the pairs or more. What differs is then too rare for an interval.
[[nodiscard]] inline bool mostly_equal(const Paired& of) { return 2 * (of.wins + of.losses) <= of.pairs(); }

/// Returns the comparison of two systems' values, seed by seed: the first minus the second. The signs decide where no
/// interval covers the mean difference as often as it says: over windows of a trace, with fewer pairs than
/// `least_pairs` (0: with any number), and where the two are equal in half of the pairs or more (docs/metrics.md).
[[nodiscard]] Paired judged_pairs(std::span<const double> row, std::span<const double> reference, bool windows,
                                  std::size_t least_pairs);

/// Returns a row's comparison with the reference, seed by seed: the row's figure minus the reference's.
[[nodiscard]] Paired judged(const SystemReport& row, const SystemReport& reference, const JudgedFigure& by);

/// "tie, wins 4 of 8": the verdict, and how many seeds agree with it. A seed without a difference is no win for either.
[[nodiscard]] std::string verdict_of(const Paired& of, bool less_is_better = false);

/// Says that so few seeds cannot decide whatever the signs are, and how to get more; empty for one, which is no
/// comparison, and for enough.
[[nodiscard]] std::string too_few_note(std::size_t seeds, bool windows);

// Common end of two runs: how long refused and unfinished requests wait when systems are compared.

/// Returns the end, in s, of the run that served more requests, or the earlier one of both if they served as many. The
/// runs are of one workload and seed. If one has served all, a request that the other refused waits until it is served.
/// Rejected: the later end, since a run that starves one request for hours would lengthen the other's waits
/// (docs/metrics.md).
[[nodiscard]] inline double common_end(const Metrics& a, const Metrics& b) {
  if (a.served != b.served) return a.served > b.served ? a.end_s : b.end_s;
  return std::min(a.end_s, b.end_s);
}

/// Returns the mean E2E of all, in s, if refused and unfinished requests wait until `end_s` of another run. If the own
/// run ends later, they wait until then, as in `mean_e2e_all_s`.
[[nodiscard]] inline double mean_e2e_all_until(const Metrics& m, double end_s) {
  const auto left = static_cast<double>(m.refused + m.unfinished);
  if (left == 0 || !(end_s > m.end_s)) return m.mean_e2e_all_s; // also of runs without an end
  return m.mean_e2e_all_s + (end_s - m.end_s) * left / static_cast<double>(m.requests - m.cancelled);
}

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/seeds.inl.hpp"
#endif

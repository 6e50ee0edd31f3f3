// SPDX-License-Identifier: Apache-2.0
// Statistics of several seeds' capacities: geometric means, medians and paired ratios. For some capacities, only the
// end that they are beyond is known.
//
// The tried rates are powers, so capacities differ by factors. Their mean is therefore the geometric mean, its interval
// is a factor in each direction, and systems are compared by ratio. (A t interval of the rates themselves can reach
// below zero.) A seed whose capacity is beyond the highest or lowest tried rate has no number, but it can be ordered:
// medians and pairs count it.
#pragma once

#include "sluice/report/statistics/interval.hpp"
#include "sluice/report/statistics/paired.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace compared {

/// A seed's capacity below, or above, all tried rates.
inline constexpr double lies_below = -std::numeric_limits<double>::infinity();
inline constexpr double lies_above = std::numeric_limits<double>::infinity();

/// The fewest seeds of which intervals contain the truth as often as they say (docs/metrics.md): of a capacity in
/// requests per second, of its factor of the workload's own rate, and of a ratio of two capacities. Windows of a trace
/// were not measured.
inline constexpr std::size_t fewest_for_rate = 16, fewest_for_scale = 3, fewest_for_ratio = 8;

/// Returns an interval of base-2 logarithms as a factor's. Without limits if there are fewer values than `fewest`, or
/// if the values are of windows.
[[nodiscard]] inline sluice::Interval factors(const sluice::Interval& logs, std::size_t fewest, bool windows) {
  if (windows || logs.count < fewest) return {.mean = std::exp2(logs.mean), .count = logs.count};
  return {std::exp2(logs.mean), std::exp2(logs.least), std::exp2(logs.most), logs.count};
}

/// Returns the geometric mean of values in base-2 logarithms, and its interval if it has one. Empty if one value has no
/// number: leaving that seed out would bias the mean.
[[nodiscard]] inline sluice::Interval geometric_interval(std::span<const double> logs, std::size_t fewest,
                                                         bool windows) {
  if (!std::all_of(logs.begin(), logs.end(), [](double log) { return std::isfinite(log); })) return {};
  return factors(sluice::t_interval(logs), fewest, windows);
}

/// Returns the interval's factor in each direction: 1.3 in "0.22 ×/÷ 1.3".
[[nodiscard]] inline double factor_of(const sluice::Interval& geometric) {
  return std::sqrt(geometric.most / geometric.least);
}

/// Returns the rate that has this logarithm; NaN beyond an end.
[[nodiscard]] inline double number_of(double log) {
  return std::isfinite(log) ? std::exp2(log) : sluice::Interval::absent;
}

/// Returns the rate that at least half of the seeds sustain: the median, or for an even number the lower of the two
/// medians. It is therefore always one of the values.
[[nodiscard]] inline double median_of(std::vector<double> logs) {
  if (logs.empty()) return sluice::Interval::absent;
  const auto middle = logs.begin() + static_cast<std::ptrdiff_t>((logs.size() - 1) / 2);
  std::nth_element(logs.begin(), middle, logs.end());
  return *middle;
}

/// One row's capacities compared with another's, seed by seed, in base-2 logarithms.
struct CapacityPairs {
  sluice::Interval ratio;             ///< geometric, with its interval if it has one; empty if a pair has no number
  std::size_t wins = 0, losses = 0;   ///< pairs in which the first row has the higher capacity; the lower capacity
  std::size_t ordered = 0, seeds = 0; ///< pairs whose order or equality is known
  double chance = 1;                  ///< probability that counts are this uneven if both rows were equal: two-sided
                                      ///< sign test

  [[nodiscard]] bool judged() const { return ordered > 1; }
  /// Uses the interval if it exists, otherwise the sign test.
  [[nodiscard]] bool tie() const {
    return judged() && (ratio.known() ? ratio.contains(1) : chance > 1 - sluice::usual_confidence);
  }
  /// "better, wins 7 of 8".
  [[nodiscard]] std::string verdict() const {
    if (ordered == 0) return "-";
    std::string text = "wins " + std::to_string(wins) + " of " + std::to_string(ordered);
    if (ordered < seeds) text += " (" + std::to_string(seeds - ordered) + " cannot be ordered)";
    if (!judged()) return text;
    if (wins + losses == 0) return "tie, the same in all " + std::to_string(ordered);
    if (tie()) return "tie, " + text;
    return ((ratio.known() ? ratio.mean > 1 : wins > losses) ? "better, " : "worse, ") + text;
  }
};

[[nodiscard]] inline CapacityPairs capacity_pairs(std::span<const double> a, std::span<const double> b, bool windows) {
  CapacityPairs pairs;
  pairs.seeds = a.size();
  bool numbers = true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    numbers = numbers && std::isfinite(a[i]) && std::isfinite(b[i]);
    if (a[i] == b[i] && !std::isfinite(a[i])) continue; // both are beyond the same end
    ++pairs.ordered;
    pairs.wins += a[i] > b[i] ? std::size_t{1} : 0;
    pairs.losses += a[i] < b[i] ? std::size_t{1} : 0;
  }
  pairs.chance = sluice::sign_test(std::min(pairs.wins, pairs.losses), pairs.wins + pairs.losses);
  if (!numbers) return pairs;
  std::vector<double> differences(a.size());
  std::transform(a.begin(), a.end(), b.begin(), differences.begin(), std::minus<>{});
  // Of pairs that are mostly equal an interval sees the others too seldom, and is too narrow.
  const bool mostly_equal = 2 * (pairs.wins + pairs.losses) <= pairs.ordered;
  pairs.ratio = factors(sluice::t_interval(differences), fewest_for_ratio, windows || mostly_equal);
  return pairs;
}

} // namespace compared

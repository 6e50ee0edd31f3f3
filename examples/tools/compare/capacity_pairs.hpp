// SPDX-License-Identifier: Apache-2.0
// Capacities of several seeds as one: means, medians and pairs of numbers that multiply, and of which some are known
// only to lie beyond an end.
//
// Rates that are tried are powers, so that capacities differ by factors: their mean is the geometric one, its interval
// is a factor each way, and a system bears so many times what another bears. (Of rates themselves a t interval reaches
// below zero.) A seed whose capacity lies beyond the highest or the lowest rate tried has no number, but it has an
// order: a median and pairs can count it.
#pragma once

#include "sluice/report/statistics/paired.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace compared {

/// Of a seed whose capacity lies below all rates tried, and above.
inline constexpr double lies_below = -std::numeric_limits<double>::infinity();
inline constexpr double lies_above = std::numeric_limits<double>::infinity();

/// Geometric mean and its interval of base-2 logarithms. Nothing where one of them has no number: a mean of the others
/// would flatter, or the reverse.
[[nodiscard]] inline sluice::Interval geometric_interval(std::span<const double> logs) {
  if (!std::all_of(logs.begin(), logs.end(), [](double log) { return std::isfinite(log); })) return {};
  const sluice::Interval of = sluice::mean_interval(logs);
  return {std::exp2(of.mean), std::exp2(of.least), std::exp2(of.most), of.count};
}

/// The factor each way of such an interval: 1.3 of "0.22 ×/÷ 1.3".
[[nodiscard]] inline double factor_of(const sluice::Interval& geometric) {
  return std::sqrt(geometric.most / geometric.least);
}

/// The rate of such a logarithm; NaN beyond an end.
[[nodiscard]] inline double number_of(double log) {
  return std::isfinite(log) ? std::exp2(log) : sluice::Interval::absent;
}

/// What at least half of the seeds bear: the median, of an even number the lower of the two. So it is one of the
/// values, whatever the others.
[[nodiscard]] inline double median_of(std::vector<double> logs) {
  if (logs.empty()) return sluice::Interval::absent;
  const auto middle = logs.begin() + static_cast<std::ptrdiff_t>((logs.size() - 1) / 2);
  std::nth_element(logs.begin(), middle, logs.end());
  return *middle;
}

/// One row's capacities against another's, seed by seed, in base-2 logarithms.
struct CapacityPairs {
  sluice::Interval ratio;             ///< geometric, with the interval of `paired`; nothing where a pair has no number
  std::size_t wins = 0, losses = 0;   ///< pairs in which the first bears more; in which it bears less
  std::size_t ordered = 0, seeds = 0; ///< pairs of which one knows who bears more, or that both bear the same
  double chance = 1;                  ///< of so uneven a count or worse, were both alike: the sign test, two sides

  [[nodiscard]] bool judged() const { return ratio.known() || (!std::isfinite(ratio.mean) && ordered > 1); }
  /// By the interval where there is one, else by the sign test.
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

/// How likely `count` fair coins fall as unevenly as `few` to the rest, or more so, either way.
[[nodiscard]] inline double sign_test(std::size_t few, std::size_t count) {
  double sum = 0, term = std::exp2(-static_cast<double>(count));
  for (std::size_t i = 0; i <= few; ++i) {
    sum += term;
    term *= static_cast<double>(count - i) / static_cast<double>(i + 1);
  }
  return std::min(1.0, 2 * sum);
}

[[nodiscard]] inline CapacityPairs capacity_pairs(std::span<const double> a, std::span<const double> b) {
  CapacityPairs pairs;
  pairs.seeds = a.size();
  bool numbers = true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    numbers = numbers && std::isfinite(a[i]) && std::isfinite(b[i]);
    if (a[i] == b[i] && !std::isfinite(a[i])) continue; // both beyond one end
    ++pairs.ordered;
    pairs.wins += a[i] > b[i] ? std::size_t{1} : 0;
    pairs.losses += a[i] < b[i] ? std::size_t{1} : 0;
  }
  pairs.chance = sign_test(std::min(pairs.wins, pairs.losses), pairs.wins + pairs.losses);
  if (!numbers) return pairs;
  const sluice::Interval of = sluice::paired(a, b).difference;
  pairs.ratio = {std::exp2(of.mean), std::exp2(of.least), std::exp2(of.most), of.count};
  return pairs;
}

} // namespace compared

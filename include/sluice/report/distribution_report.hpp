// SPDX-License-Identifier: Apache-2.0
// DistributionReport: a latency's percentiles and histogram.
#pragma once

#include "sluice/report/observer/quantile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

struct DistributionReport {
  static constexpr std::array<double, 11> asked{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1};

  std::string name; ///< "ttft_s"
  std::int64_t count = 0;
  double mean = 0, least = 0;
  std::array<double, asked.size()> percentiles{};
  /// Bin i holds values above `edges[i]` and at most `edges[i + 1]`, in numpy's layout; the first bin also holds the
  /// smallest value.
  std::vector<double> edges{};
  std::vector<std::int64_t> counts{};
};

/// Each bin is a tenth of a decade. Bins reach from the smallest value to the largest, with the same edges for every
/// system, so that histograms can be overlaid and summed. Values of 0 (tokens that a batch delivers at once) are in the
/// bin from 0 to a microsecond.
[[nodiscard]] inline DistributionReport distribution_report(std::string name, const Distribution& of) {
  DistributionReport report{.name = std::move(name), .count = of.count(), .mean = of.mean(), .least = of.min()};
  for (std::size_t i = 0; i < report.asked.size(); ++i) report.percentiles[i] = of.quantile(report.asked[i]);
  if (of.empty()) return report;
  constexpr int bins_a_decade = 10, first_decade = -6;
  const auto edge = [](int k) {
    return k < 0 ? 0.0 : std::pow(10.0, first_decade + static_cast<double>(k) / bins_a_decade);
  };
  const auto bin = [&](double value) { // the smallest k whose upper edge is not below the value
    int k = -1;
    if (value > edge(0))
      k = std::max(0, static_cast<int>(std::floor((std::log10(value) - first_decade) * bins_a_decade)) - 1);
    while (edge(k + 1) < value) ++k;
    return k;
  };
  const int first = bin(of.min()), last = bin(of.max());
  double before = 0;
  for (int k = first; k <= last; ++k) {
    report.edges.push_back(edge(k));
    const double up_to = k == last ? 1.0 : of.share_up_to(edge(k + 1));
    const auto total = static_cast<double>(of.count());
    report.counts.push_back(std::llround(up_to * total) - std::llround(before * total));
    before = up_to;
  }
  report.edges.push_back(edge(last + 1));
  return report;
}

} // namespace sluice

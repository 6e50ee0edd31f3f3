// SPDX-License-Identifier: Apache-2.0
// bench_coverage: how often the 95 % intervals that tables print contain the truth.
//
// usage: bench_coverage REPORT.JSON [SEEDS]      a comparison with many seeds or windows; SEEDS of each interval (8)
//
// Seeds: the mean over all seeds of a report stands for the truth. Each run of SEEDS consecutive seeds gives an
// interval, as sluice-compare would print it, and the share of the intervals that contain the truth is their coverage.
//
// Windows of a trace: there are too few for their mean to stand for the truth, and neighbours are alike. So SEEDS
// windows, drawn at random 4,000 times with one seed, give an interval, and the truth is the mean of the others, which
// are held out. That mean has an error of its own: of n windows against m, the difference of the means has 1 + n/m
// times the variance of the interval's own mean. The interval is therefore made wider by the root of 1 + n/m, as a
// prediction interval for the mean of m further windows is.
//
// A figure that no interval describes well, such as the longest gap, has columns without one (`has_interval`).
#include "sluice/core/random.hpp"
#include "sluice/report/columns.hpp"
#include "sluice/report/statistics/interval.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using namespace sluice;

namespace {

/// Coverage of a figure for one system, over all groups of seeds; NaN if the figure does not exist, or never varies.
double coverage(const std::vector<double>& values, std::size_t seeds) {
  const Interval truth = mean_interval(values);
  if (!truth.known() || truth.least == truth.most) return Metrics::absent;
  std::size_t groups = 0, covered = 0;
  for (std::size_t begin = 0; begin + seeds <= values.size(); begin += seeds) {
    const Interval of = mean_interval(std::span{values}.subspan(begin, seeds));
    if (!of.known()) continue;
    ++groups;
    covered += of.contains(truth.mean) ? std::size_t{1} : 0;
  }
  return groups == 0 ? Metrics::absent : static_cast<double>(covered) / static_cast<double>(groups);
}

/// The same of windows: intervals of `count` of them against the mean of the others. NaN also with too few windows.
double coverage_of_windows(std::vector<double> values, std::size_t count) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.size() < 2 * count) return Metrics::absent;
  const double wider = std::sqrt(1 + static_cast<double>(count) / static_cast<double>(values.size() - count));
  Random random(1);
  std::size_t known = 0, covered = 0;
  for (int draw = 0; draw < 4000; ++draw) {
    for (std::size_t i = 0; i < count; ++i) std::swap(values[i], values[i + random.below(values.size() - i)]);
    const Interval of = mean_interval(std::span{values}.first(count));
    if (!of.known()) continue;
    const double others = mean_of(std::span{values}.subspan(count));
    ++known;
    covered += of.mean - wider * (of.mean - of.least) <= others && others <= of.mean + wider * (of.most - of.mean);
  }
  return known == 0 ? Metrics::absent : static_cast<double>(covered) / static_cast<double>(known);
}

std::vector<double> values_of(const nlohmann::json& row, std::string_view key) {
  std::vector<double> values;
  const auto seeds = row.find("per_seed");
  const auto found = seeds == row.end() ? nlohmann::json::const_iterator{} : seeds->find(key);
  if (seeds == row.end() || found == seeds->end()) return values;
  for (const nlohmann::json& one : *found) values.push_back(one.is_number() ? one.get<double>() : Metrics::absent);
  return values;
}

} // namespace

int main(int argc, char** argv) {
  std::size_t seeds = 8;
  if (argc > 2) {
    const std::string_view text = argv[2];
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), seeds);
    if (wrong != std::errc{} || end != text.data() + text.size() || seeds < 2) argc = 0;
  }
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: bench_coverage REPORT.JSON [SEEDS, at least 2]\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  const nlohmann::json report = nlohmann::json::parse(file, nullptr, false);
  if (report.is_discarded() || !report.contains("systems")) {
    std::fprintf(stderr,
                 "bench_coverage: %s: it is no report; expected report.json of sluice-compare --seeds 1..N --out\n",
                 argv[1]);
    return 2;
  }
  const bool windows = report.at("workload").at("redrawn").get<std::string>().find("windows") != std::string::npos;
  fmt::print("coverage of nominal 95 % by {} {}, in %: over the systems\n", seeds, windows ? "windows" : "seeds");
  fmt::print("{:<28} {:>8} {:>6} {:>6} {:>6}  {}\n", "figure", "systems", "least", "median", "most",
             "below 92 or above 98");
  for (const MetricColumn& column : metric_columns) {
    std::vector<double> all;
    std::string outside;
    for (const nlohmann::json& row : report.at("systems")) {
      const std::vector<double> values = values_of(row, column.key);
      const double of = windows ? coverage_of_windows(values, seeds) : coverage(values, seeds);
      if (std::isnan(of)) continue;
      all.push_back(of);
      if (of < 0.92 || of > 0.98)
        outside += fmt::format("{}{} {:.0f}", outside.empty() ? "" : ", ", row.at("name").get<std::string>(), 100 * of);
    }
    if (all.empty()) continue;
    std::sort(all.begin(), all.end());
    fmt::print("{:<28} {:>8} {:>6.1f} {:>6.1f} {:>6.1f}  {}\n", column.key, all.size(), 100 * all.front(),
               100 * all[all.size() / 2], 100 * all.back(), outside);
  }
}

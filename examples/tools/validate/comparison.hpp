// SPDX-License-Identifier: Apache-2.0
// Comparison: the latencies of a recording and of its replay.
#pragma once

#include "sluice/report/observer/measure.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"

#include "validate/replay.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace recorded {

using sluice::Distribution;
using sluice::LatencyDistributions;

/// TTFT, TPOT and latency of requests as their client saw them.
inline LatencyDistributions latencies_of(const std::vector<Served>& requests) {
  std::vector<sluice::WeightedSample> ttft, tpot, e2e;
  for (const Served& request : requests) {
    if (request.tokens == 0) continue;
    ttft.push_back({request.first - request.sent});
    e2e.push_back({request.last - request.sent});
    if (request.tokens > 1) tpot.push_back({(request.last - request.first) / static_cast<double>(request.tokens - 1)});
  }
  return {Distribution{std::move(ttft)}, Distribution{std::move(tpot)}, Distribution{std::move(e2e)}, {}};
}
inline std::vector<Served> measured(const std::vector<sluice::VllmRunRecord>& records) {
  std::vector<Served> all;
  for (const sluice::VllmRunRecord& record : records)
    all.push_back(
        {record.queued.count(), record.first_token.count(), record.last_token.count(), record.output.count()});
  return all;
}

struct Figure {
  const char* name;
  double (*of)(const Distribution&);
};
inline constexpr std::array<Figure, 5> figures{{{"mean", [](const Distribution& d) { return d.mean(); }},
                                                {"median", [](const Distribution& d) { return d.quantile(0.5); }},
                                                {"p90", [](const Distribution& d) { return d.quantile(0.9); }},
                                                {"p95", [](const Distribution& d) { return d.quantile(0.95); }},
                                                {"p99", [](const Distribution& d) { return d.quantile(0.99); }}}};

struct Metric {
  const char* key;
  const char* label;
  Distribution LatencyDistributions::*of;
};
inline constexpr std::array<Metric, 3> metrics{{{"ttft", "TTFT", &LatencyDistributions::ttft},
                                                {"tpot", "TPOT", &LatencyDistributions::tpot},
                                                {"latency", "Latency", &LatencyDistributions::e2e}}};

/// The relative difference of each figure, in percent: simulated against measured.
struct Differences {
  std::array<std::array<double, figures.size()>, metrics.size()> percent{};

  Differences() = default;
  Differences(const LatencyDistributions& real, const LatencyDistributions& simulated) {
    for (std::size_t m = 0; m < metrics.size(); ++m)
      for (std::size_t f = 0; f < figures.size(); ++f)
        percent[m][f] = (figures[f].of(simulated.*metrics[m].of) / figures[f].of(real.*metrics[m].of) - 1.0) * 100.0;
  }
  /// The largest of a metric, as an absolute value.
  [[nodiscard]] double worst(std::size_t metric) const {
    double worst = 0;
    for (const double value : percent[metric]) worst = std::max(worst, std::abs(value));
    return worst;
  }
  [[nodiscard]] double worst() const { return std::max({worst(0), worst(1), worst(2)}); }
  [[nodiscard]] double mean_of(std::size_t metric) const { return percent[metric][0]; }
};

} // namespace recorded

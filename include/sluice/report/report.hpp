// SPDX-License-Identifier: Apache-2.0
// ComparisonReport: what a comparison found, ready to be written as a table, as JSON or as a page.
#pragma once

#include "sluice/observer/chosen_iteration.hpp"
#include "sluice/observer/measure.hpp"
#include "sluice/observer/metrics.hpp"
#include "sluice/observer/quantile.hpp"
#include "sluice/observer/series.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// The workload, model, device and limits that every system of a comparison was given. Each table names trace, seed,
/// model, device, budget and SLO.
struct WorkloadReport {
  std::string trace;  ///< the file's name, or the generator's specification
  std::string format; ///< "azure", "mooncake", "orbitflow", "vllm", "generated"
  std::uint64_t seed = 0;
  std::int64_t requests = 0;
  std::string model;
  std::string device;
  std::string profile;            ///< where the world's times come from
  std::int64_t budget_blocks = 0; ///< device KV, token blocks
  std::int64_t block_tokens = 16;
  std::int64_t budget_bytes = 0;
  std::int64_t host_budget_bytes = 0; ///< 0: not bounded
  std::int64_t batch_limit = 0;
  std::int64_t max_batch_tokens = 0;
  double rate_scale = 1;
  double base_slo_tbt_s = std::numeric_limits<double>::quiet_NaN(); ///< at SLO scale 1
  double slo_ttft_s = std::numeric_limits<double>::infinity();
  std::string command;                                    ///< how to repeat the comparison
  std::vector<std::pair<std::string, std::string>> notes; ///< further facts, label and text, in this order
};

/// One system under one SLO scale, with or without a deposit.
struct SystemReport {
  std::string name;
  bool deposit = false;
  bool control = false; ///< OneAtATime: a control row, never ranked
  double slo_scale = 1;
  double slo_tbt_s = std::numeric_limits<double>::infinity();
  double slo_ttft_s = std::numeric_limits<double>::infinity();
  std::string transfer;    ///< the rule's name
  std::string engine_type; ///< the composition in one line
  std::string note;        ///< what a reader must know of this row; empty mostly
  std::string livelock;    ///< why the run was ended before its requests; empty: it was not. Such a row is not ranked

  Metrics metrics;
  std::vector<std::pair<std::string, std::int64_t>> refusals; ///< reason, how many
  std::vector<CdfPoint> ttft_cdf, tbt_cdf, e2e_cdf;
  Series::State series;
  RecordedIteration iteration;
};

struct ComparisonReport {
  WorkloadReport workload;
  std::vector<SystemReport> systems;
};

namespace detail {

/// Reasons that differ in their numbers alone ("its KV takes 20512 blocks") are one reason; the first stands for all.
[[nodiscard]] inline std::vector<std::pair<std::string, std::int64_t>> refusals_of(const Summary::State& summary) {
  struct Group {
    std::string shape, first;
    std::int64_t count;
    bool differ;
  };
  std::vector<Group> groups;
  for (const RequestRecord& request : summary.requests) {
    if (request.reason < 0) continue;
    const std::string& reason = summary.reasons[static_cast<std::size_t>(request.reason)];
    std::string shape;
    for (const char c : reason)
      if (c < '0' || c > '9') shape += c;
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.shape == shape; });
    if (known == groups.end()) {
      groups.push_back({shape, reason, 1, false});
    } else {
      ++known->count;
      known->differ |= known->first != reason;
    }
  }
  std::vector<std::pair<std::string, std::int64_t>> refusals;
  for (const Group& group : groups)
    refusals.emplace_back(group.first + (group.differ ? ", and the like" : ""), group.count);
  return refusals;
}

} // namespace detail

/// Fills in what Summary kept of a run that ended at `end`: metrics, distribution functions, refusals.
inline void collect(SystemReport& report, const Summary::State& summary, Seconds end) {
  constexpr int curve_points = 120;
  const LatencyDistributions of = latencies(summary);
  report.metrics = measure(summary, end, of);
  report.ttft_cdf = of.ttft.cdf(curve_points);
  report.tbt_cdf = of.tbt.cdf(curve_points);
  report.e2e_cdf = of.e2e.cdf(curve_points);
  report.refusals = detail::refusals_of(summary);
}
inline void collect(SystemReport& report, const Series::State& series) { report.series = series; }
inline void collect(SystemReport& report, const ChosenIteration::State& chosen) { report.iteration = chosen.kept; }

} // namespace sluice

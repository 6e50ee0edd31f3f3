// SPDX-License-Identifier: Apache-2.0
// ComparisonReport: the results of a comparison, ready to be written as a table, as JSON or as a page.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/made_by.hpp"
#include "sluice/report/observer/chosen_iteration.hpp"
#include "sluice/report/observer/metrics.hpp"
#include "sluice/report/observer/quantile.hpp"
#include "sluice/report/observer/series.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/report/observer/why.hpp"
#include "sluice/report/remarks.hpp"
#include "sluice/workload/slo_classes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// DistributionReport: a latency's percentiles and histogram.
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

// TimeReport: the time of a row's requests by cause, summed over all and listed for some requests.

/// Why's records of a run; empty without that observer.
struct TimeReport {
  std::int64_t seen = 0;                    ///< number of requests, over all seeds
  Ticks spent{};                            ///< from arrival to end, summed over all requests
  Ticks covered{};                          ///< the part during which the deposit still had tokens for the user
  std::array<double, time_causes> missed{}; ///< deadlines
  double turned_away = 0;                   ///< deadlines of refused requests, which have no cause
  std::int64_t prompts = 0;                 ///< tokens
  MissCauses misses;                        ///< of these
  std::int64_t wanted = -1;                 ///< id of the request that the user asked for; negative: none
  std::vector<RequestTime> requests;        ///< by id; if there are many, those that missed the most deadlines. With
                                            ///< several seeds, those of the first seed

  [[nodiscard]] std::int64_t whole() const;
  [[nodiscard]] double all_missed() const;
  void add(const TimeReport& other);
};

/// Details are kept for at most `most` requests: first `wanted`, then those that missed the most deadlines; among
/// equals, the longest.
[[nodiscard]] TimeReport time_report(std::vector<RequestTime> all, std::size_t most = 200, std::int64_t wanted = -1);

/// The workload, model, device and limits of all systems in a comparison. Each table shows the trace, seed, model,
/// device, budget and SLO.
struct WorkloadReport {
  std::string trace;                ///< the file's name, or the generator's specification
  std::string format;               ///< "azure", "mooncake", "orbitflow", "vllm", "generated"
  std::uint64_t seed = 0;           ///< of the only workload, or of the first one
  std::vector<std::uint64_t> seeds; ///< of all workloads; empty if there is one seed
  std::string redrawn;              ///< what each seed serves of a trace: "resampled in blocks of 7", "in 8 windows of
                                    ///< 500"; empty: all of it
  bool windows = false;             ///< the seeds are numbers of windows, as recorded
  std::string as_recorded;          ///< what the run serves whose figures are beside the means of resampled requests
                                    ///< or windows: "the trace's first 300 requests"; empty: there is none
  std::string counted;              ///< the requests that figures count: "arrivals from 10 s"; empty: all
  std::int64_t requests = 0;
  std::string model;
  std::string device;
  std::string link;               ///< rates of its link, to the host and to the device: "7.6 GB/s"; empty: unknown
  std::string profile;            ///< the source of the world's times
  std::int64_t budget_blocks = 0; ///< device KV, token blocks
  bool kv_in_groups = false; ///< layers keep different amounts: `budget_blocks` are those of one request that fills it
  std::int64_t block_tokens = 16;
  std::int64_t budget_bytes = 0;
  std::int64_t host_budget_bytes = 0; ///< 0: no limit
  std::int64_t batch_limit = 0;
  std::int64_t max_batch_tokens = 0;
  double rate_scale = 1;
  double base_slo_tbt_s = std::numeric_limits<double>::quiet_NaN(); ///< at SLO scale 1
  double slo_ttft_s = std::numeric_limits<double>::infinity();
  std::vector<SloClass> slo_classes;                      ///< if requests have several SLOs, at most eight; otherwise
                                                          ///< empty
  std::string command;                                    ///< the command that repeats the comparison
  std::vector<std::pair<std::string, std::string>> notes; ///< further facts, label and text, in this order
  std::string times; ///< how times were made, for a caption: "decodes at 92 % of the memory's bandwidth"
  std::vector<std::string> cautions; ///< what the figures assume and a caption must say, such as the source of times
};

/// A bound of the share of the requests within their SLOs, the mean over the seeds.
struct PossibleShare {
  double most = 0;  ///< no schedule exceeds it
  double found = 0; ///< the bound's program is known to allow it: a longer search ends at this or above

  /// Whether the program is solved: its optimum is the bound.
  [[nodiscard]] bool proven() const { return !(found < most); }
};

/// One system with one SLO scale, with or without a deposit. Its SLO is that of all its requests, or NaN if they have
/// several.
struct SystemReport {
  std::string name;
  bool deposit = false;
  bool control = false; ///< OneAtATime: a control row, never ranked
  bool oracle = false;  ///< its policies know how long answers will be: ranked and marked, never the reference
  double slo_scale = 1;
  double slo_tbt_s = std::numeric_limits<double>::infinity();
  double slo_ttft_s = std::numeric_limits<double>::infinity();
  std::string transfer;    ///< the rule's name
  std::string engine_type; ///< the composition in one line
  std::string note;        ///< a remark on this row; usually empty
  std::string tuned;       ///< numbers that were chosen for this row alone; empty: none was
  std::string livelock;    ///< why the run was stopped early; empty if it was not. A livelocked row is not ranked

  /// Share of the requests that any schedule could keep within their SLOs at most; not there: not asked for.
  std::optional<PossibleShare> slo_possible;
  std::optional<BeyondReport> beyond_grid; ///< if the times are from a measured grid
  UnpaidReport unpaid{};                   ///< decisions that were not charged for their time; over all seeds
  bool short_horizon = false;              ///< of all rows of its block: `mark_short_horizon` of report/order.hpp
  bool waits_for_memory = false;      ///< requests waited for memory before they ever ran (report/observer/why.hpp)
  Metrics metrics;                    ///< for several seeds, the means (report/seeds.hpp)
  std::vector<Metrics> per_seed;      ///< in the order of WorkloadReport::seeds; empty: one seed
  bool windows = false;               ///< these seeds are windows of a trace, as recorded
  std::optional<Metrics> as_recorded; ///< of one run on the trace as recorded (WorkloadReport::as_recorded)
  std::vector<std::string> livelocks; ///< for each of these seeds, why its run was stopped, as in `livelock`; empty:
                                      ///< one seed
  std::vector<std::pair<std::string, std::int64_t>> refusals; ///< reason and number; over all seeds
  std::vector<CdfPoint> ttft_cdf, tbt_cdf, e2e_cdf;
  std::vector<DistributionReport> distributions; ///< of TTFT, TPOT, TBT and E2E; from the first seed, like the curves
  Series::State series;
  RecordedIteration iteration;
  TimeReport time{}; ///< the requests' time by cause, if Why observed the run
  /// The same run's requests of each SLO class alone, in the order of WorkloadReport::slo_classes and with its names;
  /// empty: one SLO. What belongs to the engine, such as its iterations, is not theirs and stays absent.
  std::vector<SystemReport> classes{};
};

/// What no system can exceed on this machine and workload at one SLO scale, knowing everything (docs/bound.md).
struct PossibleShares {
  double slo_scale = 1;
  PossibleShare any{};              ///< with pauses, and what the link adds: of every system
  PossibleShare no_pauses{};        ///< without pauses
  PossibleShare device{};           ///< with pauses, KV on the device alone
  PossibleShare device_no_pauses{}; ///< neither
};

struct ComparisonReport {
  WorkloadReport workload;
  std::vector<SystemReport> systems;
  std::string baseline{}; ///< the reference system of paired comparisons; empty: the best of each block
  MadeBy made_by{};
  std::vector<PossibleShares> possible{}; ///< one per SLO scale; empty: not asked for
};

namespace detail {

using Refusals = std::vector<std::pair<std::string, std::int64_t>>;

/// Groups reasons that differ only in their numbers ("its KV takes 20512 blocks"); the first represents the group.
class RefusalGroups {
 public:
  void add(const std::string& reason, std::int64_t count = 1);
  [[nodiscard]] Refusals all() const;

 private:
  static constexpr std::string_view alike = ", and the like";
  struct Group {
    std::string shape, first;
    std::int64_t count;
    bool differ;
  };
  std::vector<Group> groups_;
};

} // namespace detail

namespace detail {

/// Returns the value of `of` if all requests have the same; otherwise NaN.
template <class Of>
[[nodiscard]] double common(const Summary::State& summary, double otherwise, Of&& of) {
  bool any = false;
  double value = otherwise;
  for (const RequestRecord& request : summary.requests) {
    if (!request.known) continue;
    if (any && of(request) != value) return std::numeric_limits<double>::quiet_NaN();
    value = of(request);
    any = true;
  }
  return value;
}

} // namespace detail

/// Sets the SLO of the requests, and the metrics, distribution functions and refusals that Summary recorded of a run
/// that ended at `end`.
void collect(SystemReport& report, const Summary::State& summary, Seconds end);
inline void collect(SystemReport& report, const Series::State& series) { report.series = series; }
inline void collect(SystemReport& report, const ChosenIteration::State& chosen) { report.iteration = chosen.kept; }

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/report.inl.hpp"
#endif

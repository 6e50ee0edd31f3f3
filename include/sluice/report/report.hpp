// SPDX-License-Identifier: Apache-2.0
// ComparisonReport: the results of a comparison, ready to be written as a table, as JSON or as a page.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/distribution_report.hpp"
#include "sluice/report/made_by.hpp"
#include "sluice/report/observer/chosen_iteration.hpp"
#include "sluice/report/observer/metrics.hpp"
#include "sluice/report/observer/quantile.hpp"
#include "sluice/report/observer/series.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/report/time_report.hpp"
#include "sluice/workload/slo_classes.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// The workload, model, device and limits of all systems in a comparison. Each table shows the trace, seed, model,
/// device, budget and SLO.
struct WorkloadReport {
  std::string trace;                ///< the file's name, or the generator's specification
  std::string format;               ///< "azure", "mooncake", "orbitflow", "vllm", "generated"
  std::uint64_t seed = 0;           ///< of the only workload, or of the first one
  std::vector<std::uint64_t> seeds; ///< of all workloads; empty if there is one seed
  std::string redrawn;              ///< how a trace was resampled: "in blocks of 7"; empty: not resampled
  std::int64_t requests = 0;
  std::string model;
  std::string device;
  std::string link;               ///< rates of its link, to the host and to the device: "7.6 GB/s"; empty: unknown
  std::string profile;            ///< the source of the world's times
  std::int64_t budget_blocks = 0; ///< device KV, token blocks
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
  double slo_scale = 1;
  double slo_tbt_s = std::numeric_limits<double>::infinity();
  double slo_ttft_s = std::numeric_limits<double>::infinity();
  std::string transfer;    ///< the rule's name
  std::string engine_type; ///< the composition in one line
  std::string note;        ///< a remark on this row; usually empty
  std::string livelock;    ///< why the run was stopped early; empty if it was not. A livelocked row is not ranked

  /// Share of the requests that any schedule could keep within their SLOs at most; not there: not asked for.
  std::optional<PossibleShare> slo_possible;
  Metrics metrics;                    ///< for several seeds, the means (report/seeds.hpp)
  std::vector<Metrics> per_seed;      ///< in the order of WorkloadReport::seeds; empty: one seed
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

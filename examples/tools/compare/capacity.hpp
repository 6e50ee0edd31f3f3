// SPDX-License-Identifier: Apache-2.0
// Capacity: each system's highest arrival rate at which enough requests keep both SLOs, TTFT and TPOT.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/statistics/interval.hpp"

#include "compare/capacity_pairs.hpp"
#include "compare/capacity_search.hpp"
#include "compare/columns.hpp"
#include "compare/grid.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
class Crew;
}

namespace compared {

/// One system's capacity on the workload of every seed.
struct CapacityRow {
  std::string name;
  bool deposit = false, control = false, oracle = false;
  bool windows = false; ///< the seeds are windows of a trace
  double slo_scale = 1, slo_tbt_s = 0, slo_ttft_s = 0;
  std::string engine;                ///< the composition in one line
  std::vector<CapacitySearch> seeds; ///< one search per seed
  std::vector<double> own_rates;     ///< requests per second of each seed's workload at rate scale 1

  [[nodiscard]] std::string label() const { return sluice::marked(name, sluice::marks_of(control, oracle)); }
  /// Seeds whose capacity is below, within or above the rates of the lattice.
  [[nodiscard]] std::size_t count(Found found) const;
  [[nodiscard]] std::size_t doubted() const; ///< seeds whose attainment crosses the required share more than once
  /// Returns each seed's capacity in requests per second, as a base-2 logarithm. A capacity beyond an end of the
  /// lattice is that end (capacity_pairs.hpp).
  [[nodiscard]] std::vector<double> rates(const RateLattice& lattice) const;
  [[nodiscard]] std::vector<double>
  scales(const RateLattice& lattice) const; ///< the same, relative to the workload's own rate
  /// Returns the mean attainment at the capacities; NaN if one is beyond an end. It has no interval: by the search it
  /// is the required share or little more.
  [[nodiscard]] double attained() const;
};

/// The capacities of one comparison.
struct CapacityCell {
  std::vector<std::pair<std::string, std::string>> at; ///< position in a grid
  std::string label;                                   ///< a preset's case
  sluice::WorkloadReport workload;
  std::string baseline;
  std::vector<CapacityRow> rows;
};

struct CapacityReport {
  double share = 0.9;
  RateLattice lattice;
  std::vector<Axis> axes; ///< empty for one comparison
  std::vector<CapacityCell> cells;
  std::string command, note;
  sluice::RunCount searches{};
};

/// Reports options with which capacities cannot be searched: several rates, or tenants.
sluice::Status check_capacity(const CommandLine& asked, const Sweep& sweep);

/// Searches every system's capacity on every seed of every cell, in parallel. `grid`: the prepared grid. Returns
/// nothing if another process leads the crew. After an interrupt, the result has only the rows that were searched on
/// every seed, and the cells with such rows.
sluice::Expected<CapacityReport> find_capacities(const Sweep& sweep, const Grid& grid, sluice::Crew& crew);

/// Returns the rows with one SLO, with or without a deposit, ordered by the rate that at least half of the seeds
/// sustain. This median also orders rows in which some seeds are beyond an end and which therefore have no mean. Ties
/// are ordered by the mean, with such seeds at that end; controls come last.
std::vector<const CapacityRow*> ranked(const CapacityCell& cell, const RateLattice& lattice, bool deposit,
                                       double slo_scale);

/// Returns the row that `row` is compared with: the baseline, otherwise the best of its block. Null if that is `row`
/// itself, or if no row sustains any rate.
const CapacityRow* rival_of(const CapacityCell& cell, const RateLattice& lattice, const CapacityRow& row);

/// Returns why a row has no capacity or a doubtful one: "not even at rate x0.0156", "of 8 seeds 3 not even at …".
std::string remark_of(const CapacityReport& report, const CapacityRow& row);

/// "0.22 ×/÷ 1.3": a geometric mean and the factor of its interval, if it has one.
std::string factor_text(const sluice::Interval& geometric);

/// "-55.6 (-66.6 .. -41.1)": a ratio in per cent above 1, and its interval between these texts, if it has one.
std::string ratio_text(const sluice::Interval& ratio, std::string_view from, std::string_view to, std::string_view end);

/// "first token within 5 s and TPOT within 35 ms", or the SLO classes.
std::string kept_slos(const sluice::WorkloadReport& workload, const CapacityRow& row);

std::string capacity_text(const CapacityReport& report, std::string_view style);
std::string capacity_json(const CapacityReport& report);
std::string capacity_html(const CapacityReport& report);

} // namespace compared

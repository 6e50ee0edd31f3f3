// SPDX-License-Identifier: Apache-2.0
// Capacity: of each system the highest arrival rate at which enough requests keep both promises, TTFT and TPOT.
#pragma once

#include "sluice/core/expected.hpp"
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
  bool deposit = false, control = false;
  double slo_scale = 1, slo_tbt_s = 0, slo_ttft_s = 0;
  std::string engine;                ///< the composition in one line
  std::vector<CapacitySearch> seeds; ///< a search each
  std::vector<double> own_rates;     ///< requests a second of each seed's workload at rate scale 1 of the search

  /// Seeds whose capacity lies beyond the lattice's end.
  [[nodiscard]] std::size_t count(Found found) const;
  [[nodiscard]] std::size_t doubted() const; ///< whose attainment crosses the share more than once
  /// Each seed's capacity in requests a second, as a base-2 logarithm, or beyond which end it lies
  /// (capacity_pairs.hpp).
  [[nodiscard]] std::vector<double> rates(const RateLattice& lattice) const;
  [[nodiscard]] std::vector<double> scales(const RateLattice& lattice) const; ///< the same, of the workload's own rate
  [[nodiscard]] sluice::Interval attained() const;                            ///< at the capacity
};

/// Of one comparison.
struct CapacityCell {
  std::vector<std::pair<std::string, std::string>> at; ///< of a grid
  std::string label;                                   ///< a preset's case
  sluice::WorkloadReport workload;
  std::string baseline;
  std::vector<CapacityRow> rows;
};

struct CapacityReport {
  double share = 0.9;
  RateLattice lattice;
  std::vector<Axis> axes; ///< none of one comparison
  std::vector<CapacityCell> cells;
  std::string command, note;
  sluice::RunCount searches{};
};

/// What cannot be searched: rates given besides, tenants.
sluice::Status check_capacity(const CommandLine& asked, const Sweep& sweep);

/// Searches every system's capacity on every seed of every cell, side by side. `grid`: as prepared. Nothing where the
/// crew is led by another process. After an interrupt it has the rows that were searched on every seed, and the cells
/// that have any.
sluice::Expected<CapacityReport> find_capacities(const Sweep& sweep, const Grid& grid, sluice::Crew& crew);

/// The rows under one SLO, with a deposit or without, by what at least half of the seeds bear: the median orders rows
/// with seeds beyond an end too, which have no mean. Ties by the mean with such seeds at that end; controls last.
std::vector<const CapacityRow*> ranked(const CapacityCell& cell, const RateLattice& lattice, bool deposit,
                                       double slo_scale);

/// Whom `row` is judged against: the baseline, else the best of its block. Null: it is that one, or nobody bears any
/// rate.
const CapacityRow* rival_of(const CapacityCell& cell, const RateLattice& lattice, const CapacityRow& row);

/// Why a row has no capacity, or one that is doubted: "not even at rate x0.0156", "of 8 seeds 3 not even at …".
std::string remark_of(const CapacityReport& report, const CapacityRow& row);

/// "0.22 ×/÷ 1.3": a geometric mean and the factor of its interval.
std::string factor_text(const sluice::Interval& geometric);

std::string capacity_text(const CapacityReport& report, std::string_view style);
std::string capacity_json(const CapacityReport& report);
std::string capacity_html(const CapacityReport& report);

} // namespace compared

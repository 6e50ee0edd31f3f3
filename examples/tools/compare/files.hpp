// SPDX-License-Identifier: Apache-2.0
// The files of --out that are tables: what is wanted of each run, and what becomes of it.
#pragma once

#include "compare/comparison.hpp"
#include "compare/outcome.hpp"
#include "compare/wanted.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace compared {

struct CapacityReport; ///< compare/capacity.hpp
struct Grid;           ///< compare/grid.hpp

/// What files need of a run of `system` at that scale, on the workload of the seed at that place.
Wanted wanted_of(const Options& options, const Comparison& comparison, const System& system, double slo_scale,
                 std::size_t seed);

/// The rows of all runs, in their order.
CsvRows take_rows(std::span<Outcome> outcomes);

/// systems.csv, requests.csv, series.csv and iterations.csv, and datapackage.json, which describes them.
sluice::Status write_tables(const Asked& asked, const sluice::ComparisonReport& report, const CsvRows& rows);

/// systems.csv of a grid: each cell's rows, with the cell's place on the axes before them; and datapackage.json.
sluice::Status write_tables(const std::string& folder, const Grid& grid);

/// capacities.csv, a row for each search; probes.csv, a row for each rate that one tried; and datapackage.json.
sluice::Status write_tables(const std::string& folder, const CapacityReport& report);

/// Removes what an earlier run left in the folder's `traces`: beside a new report they would pass for its own.
void forget_traces(const std::string& folder);

} // namespace compared

// SPDX-License-Identifier: Apache-2.0
// The files of --out: what is wanted of each run, and what becomes of it.
#pragma once

#include "compare/comparison.hpp"
#include "compare/outcome.hpp"
#include "compare/wanted.hpp"
#include "shared/out_folder.hpp"

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

/// systems.csv, requests.csv, series.csv and iterations.csv, datapackage.json, which describes them, both reports and
/// the traces, whose texts are taken. Here as below: all of them, in place of what an earlier run left, or none.
sluice::Status write_files(const Asked& asked, const sluice::ComparisonReport& report, const CsvRows& rows,
                           std::span<NamedText> traces);

/// systems.csv of a grid: each cell's rows, with the cell's place on the axes before them; datapackage.json and both
/// reports.
sluice::Status write_files(const Options& options, const Grid& grid);

/// capacities.csv, a row for each search; probes.csv, a row for each rate that one tried; datapackage.json and both
/// reports.
sluice::Status write_files(const Options& options, const CapacityReport& report);

} // namespace compared

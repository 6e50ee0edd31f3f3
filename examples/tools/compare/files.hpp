// SPDX-License-Identifier: Apache-2.0
// The files of --out: what they need from each run, and writing them.
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

/// What the files need from a run of `system` at this SLO scale, on the workload of the seed at that index.
Wanted wanted_of(const Options& options, const Comparison& comparison, const System& system, double slo_scale,
                 std::size_t seed);

/// The rows of all runs, in their order.
CsvRows take_rows(std::span<Outcome> outcomes);

/// Writes systems.csv, requests.csv, series.csv and iterations.csv, the datapackage.json that describes them, both
/// reports and the traces, whose texts are moved from. Here and below: either all files are written and replace an
/// earlier run's, or none is.
sluice::Status write_files(const Asked& asked, const sluice::ComparisonReport& report, const CsvRows& rows,
                           std::span<NamedText> traces);

/// Writes systems.csv of a grid: each cell's rows, which begin with the cell's place on the axes; also datapackage.json
/// and both reports.
sluice::Status write_files(const Options& options, const Grid& grid);

/// Writes capacities.csv, with a row per search; probes.csv, with a row per tried rate;
/// datapackage.json and both reports.
sluice::Status write_files(const Options& options, const CapacityReport& report);

} // namespace compared

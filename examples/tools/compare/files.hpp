// SPDX-License-Identifier: Apache-2.0
// The files of --out: what they need from each run, and how they are written.
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

/// Returns the data that the files need from each run of `system` at this SLO scale, on the workload of the seed with
/// that index.
Wanted wanted_of(const Options& options, const Comparison& comparison, const System& system, double slo_scale,
                 std::size_t seed);

/// Returns the rows of all runs, in order.
CsvRows take_rows(std::span<Outcome> outcomes);

/// Writes systems.csv, requests.csv, series.csv and iterations.csv, the datapackage.json that describes them, both
/// reports and the traces, whose texts are moved from. This and the following functions write either all files, which
/// replace those of an earlier run, or none.
sluice::Status write_files(const Asked& asked, const sluice::ComparisonReport& report, const CsvRows& rows,
                           std::span<NamedText> traces);

/// Writes systems.csv of a grid, datapackage.json and both reports. systems.csv has each cell's rows, which begin with
/// the cell's position on the axes.
sluice::Status write_files(const Options& options, const Grid& grid);

/// Writes capacities.csv, with a row per search; probes.csv, with a row per tried rate;
/// datapackage.json and both reports.
sluice::Status write_files(const Options& options, const CapacityReport& report);

} // namespace compared

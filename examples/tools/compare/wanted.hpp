// SPDX-License-Identifier: Apache-2.0
// Wanted: what files are to be made of a run, besides its figures.
#pragma once

#include "sluice/report/csv_tables.hpp"
#include "sluice/report/observer/timeline.hpp"

#include <cstddef>

namespace compared {

struct Wanted {
  sluice::CsvRun run;         ///< whose rows they are
  sluice::TraceAt trace_at{}; ///< where a trace shows everything
  std::size_t iterations = 2; ///< rows of iterations.csv at most, around the same point
};

} // namespace compared

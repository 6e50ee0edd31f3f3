// SPDX-License-Identifier: Apache-2.0
// Wanted: the files to write for a run, in addition to its figures.
#pragma once

#include "sluice/report/csv_tables.hpp"
#include "sluice/report/observer/timeline.hpp"

#include <cstddef>

namespace compared {

struct Wanted {
  sluice::CsvRun run;         ///< identifies the rows
  sluice::TraceAt trace_at{}; ///< the part of the run that a trace shows in detail
  std::size_t iterations = 2; ///< most rows of iterations.csv, around the same point
  bool tokens = false;        ///< a row for every token
};

} // namespace compared

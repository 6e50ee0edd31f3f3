// SPDX-License-Identifier: Apache-2.0
// serve: from the flags to what came of the run.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/world/local/model.hpp"

#include "run/job.hpp"
#include "run/options.hpp"
#include "run/results.hpp"
#include "run/workload.hpp"

#include <optional>

namespace running {

struct Served {
  sluice::LocalModel model; ///< its tokenizer, and the shape of its weights: the weights themselves are the machine's
  Workload workload;
  Results results;
  /// Why nothing ran, where nothing did.
  std::optional<sluice::Error> nothing;
  /// Which file could not be written, where one could not: the run is over, and what came of it is to be told.
  std::optional<sluice::Error> unwritten;
  /// The run was ended by a signal: its results are of what it served until then, and no file was written.
  bool interrupted = false;
};

/// Runs what the options ask for: text goes to standard output as it comes (but with --json), progress of a trace to
/// standard error, and the files that were asked for are there afterwards. An error: nothing was begun, or
/// --replay-clock parted from its record.
sluice::Expected<Served> serve(const Options& options);

} // namespace running

// SPDX-License-Identifier: Apache-2.0
// serve: runs what the flags ask for.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/local/model.hpp"

#include "run/computer.hpp"
#include "run/job.hpp"
#include "run/options.hpp"
#include "run/results.hpp"
#include "run/workload.hpp"

#include <optional>
#include <string>

namespace running {

struct Served {
  sluice::LocalModel
      model; ///< its tokenizer, and the shape of its weights; the weights themselves belong to the machine
  Workload workload;
  Results results;
  /// Why nothing ran; empty if something did.
  std::optional<sluice::Error> nothing;
  /// The file that could not be written, if any. The run is over, and its results must still be printed.
  std::optional<sluice::Error> unwritten;
  /// A signal ended the run: the results cover the requests served until then, and no file was written.
  bool interrupted = false;
};

/// The weights of a process's last run, on the host and on a GPU, for its next run with the same model: drawing or
/// reading them takes longer than most runs.
struct KeptWeights {
  std::string of; ///< the flags that determine them
  sluice::ModelWeights weights;
  KeptGpu gpu;
};

/// Runs what the options ask for. Text goes to standard output as it is generated (not with --json), a trace's progress
/// to standard error; then the requested files are written. Returns an error if nothing was started, or if
/// --replay-clock differed from its record. `kept`: weights to use if they are those of the options' model; then this
/// run's. The files of a model must not change meanwhile.
sluice::Expected<Served> serve(const Options& options, KeptWeights* kept = nullptr);

} // namespace running

// SPDX-License-Identifier: Apache-2.0
// Tables: the files of --out, in the same format as sluice-compare's for a system: report.json and tables as CSV.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/report/observer/series.hpp"
#include "sluice/report/observer/timeline.hpp"
#include "sluice/world/local/memory.hpp"

#include "run/costs.hpp"
#include "run/options.hpp"
#include "run/outputs.hpp"
#include "run/results.hpp"
#include "run/workload.hpp"
#include "shared/out_folder.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace running {

/// The contents of a report in addition to what the tables' observers recorded.
struct Told {
  const Options& options;
  const engines::System& system;
  const sluice::ModelShape& model;
  const Workload& workload;
  const Costs& costs;
  const sluice::LocalMemory& memory;
  const Results& results;
  sluice::Status ran; ///< the error that ended the run early, if any
};

/// Listens as the engine's feed, which otherwise only servers use: two more observers in `Recorded` would be called for
/// every token of every run.
class Tables final : public sluice::EventListener {
 public:
  /// Creates the folder and opens the files in it: they are unnamed until the run is over. Null without --out.
  static sluice::Expected<std::unique_ptr<Tables>> open(const Options& options);

  /// The files that --out writes, by flag and path.
  static std::vector<NamedFile> files_of(const Options& options);

  /// Writes all files, or none. Call it last.
  sluice::Status finish(const Told& told);

  void hear(const sluice::AnyEvent& event) override;

 private:
  Tables(OutFolder files, sluice::TraceAt at);

  OutFolder files_;
  sluice::Timeline iterations_;
  sluice::Timeline::State rows_;
  sluice::Series::State series_;
};

} // namespace running

// SPDX-License-Identifier: Apache-2.0
// Tables: the files of --out, as sluice-compare leaves them of a system: report.json and tables as CSV.
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

/// What a report says of a run, beside what the tables' observers kept of it.
struct Told {
  const Options& options;
  const engines::System& system;
  const sluice::ModelShape& model;
  const Workload& workload;
  const Costs& costs;
  const sluice::LocalMemory& memory;
  const Results& results;
  sluice::Status ran; ///< what ended it before its requests, if anything did
};

/// Listens as the engine's feed, which otherwise only servers need: two more observers in `Recorded` would be asked for
/// every token of every run.
class Tables final : public sluice::EventListener {
 public:
  /// Makes the folder, and opens the files in it: nameless until the run is over. Null without --out.
  static sluice::Expected<std::unique_ptr<Tables>> open(const Options& options);

  /// What --out writes, by flag and path.
  static std::vector<NamedFile> files_of(const Options& options);

  /// Writes all files, or none. No call may follow.
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

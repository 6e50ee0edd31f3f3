// SPDX-License-Identifier: Apache-2.0
// Tables: the files of --out, as sluice-compare leaves them of a system: report.json and tables as CSV.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/local/memory.hpp"
#include "sluice/observer/series.hpp"
#include "sluice/observer/timeline.hpp"
#include "sluice/serve/generation_feed.hpp"

#include "run/costs.hpp"
#include "run/options.hpp"
#include "run/outputs.hpp"
#include "run/results.hpp"
#include "run/workload.hpp"
#include "shared/out_folder.hpp"

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace running {

/// What a report says of a run, beside what the tables' observers kept of it.
struct Told {
  const Options& options;
  const sluice::ModelShape& model;
  const Workload& workload;
  const Costs& costs;
  const sluice::LocalMemory& memory;
  const Results& results;
  sluice::Status ran; ///< what ended it before its requests, if anything did
};

/// Hears of each iteration by the engine's feed, which only servers need otherwise: two more observers in `Watch` would
/// be looked at for every token of every run.
class Tables final : public sluice::FeedListener {
 public:
  /// Makes the folder, and opens the files in it: nameless until the run is over. Null without --out.
  static sluice::Expected<std::unique_ptr<Tables>> open(const Options& options);

  /// What --out writes, by flag and path.
  static std::vector<NamedFile> files_of(const Options& options);

  /// Writes all files, or none. No call may follow.
  sluice::Status finish(const Told& told);

  void planned(const sluice::View& view, const sluice::Plan& plan, sluice::Seconds wall_time) override;
  void iterated(const sluice::IterationRecord& record) override;
  void released(const sluice::RequestRow&, sluice::Tokens, sluice::Seconds) override {}
  void ended(const sluice::RequestRow&, sluice::Seconds) override {}
  void refused(sluice::RequestId, std::string_view) override {}
  void cancelled(const sluice::RequestRow&, sluice::Seconds) override {}
  void preempted(const sluice::RequestRow&, sluice::Kept, sluice::Seconds) override {}
  void resumed(const sluice::RequestRow&, sluice::Seconds) override {}

 private:
  Tables(OutFolder files, sluice::TraceAt at);

  OutFolder files_;
  sluice::Timeline iterations_;
  sluice::Timeline::State rows_;
  sluice::Series::State series_;
};

} // namespace running

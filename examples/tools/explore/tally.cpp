// SPDX-License-Identifier: Apache-2.0
#include "explore/tally.hpp"

#include "sluice/report/observer/summary.hpp"

#include "compare/outcome.hpp"

namespace explored {

using namespace sluice;

Status run_tallied(Expected<engines::Simulated> (*simulate)(const engines::Simulation&),
                   const compared::Request& request, compared::Outcome& outcome) {
  ListeningObserver<Summary> summary;
  const Expected<compared::Ended> ended = compared::simulate(simulate, request, summary);
  if (!ended) return ended.error();
  SystemReport& report = outcome.report;
  report.deposit = request.deposit;
  report.slo_tbt_s = request.slo.tbt.count();
  report.slo_ttft_s = request.slo.ttft.count();
  report.transfer = ended->composed.transfer;
  report.livelock = ended->livelock;
  collect(report, summary.state, ended->now);
  report.ttft_cdf.clear(); // there are hundreds of rows, and no page draws their curves
  report.tbt_cdf.clear();
  report.e2e_cdf.clear();
  return {};
}

} // namespace explored

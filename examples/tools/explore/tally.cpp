// SPDX-License-Identifier: Apache-2.0
// What a tally keeps, and the row that it becomes.
#include "explore/tally.hpp"

#include "compare/collect.hpp"
#include "compare/outcome.hpp"

namespace explored {

using namespace sluice;

namespace {
constexpr Summary summary;
}

void Tally::submitted(State& state, const RequestRow& row) const { summary.submitted(state, row); }
void Tally::refused(State& state, RequestId id, const RequestSpec& spec, Seconds now, std::string_view reason) const {
  summary.refused(state, id, spec, now, reason);
}
void Tally::preempted(State& state, const RequestRow& row, Kept kept, Seconds now) const {
  summary.preempted(state, row, kept, now);
}
void Tally::resumed(State& state, const RequestRow& row, Seconds now) const { summary.resumed(state, row, now); }
void Tally::ended(State& state, const RequestRow& row, Seconds now) const { summary.ended(state, row, now); }
void Tally::cancelled(State& state, const RequestRow& row, Seconds now) const { summary.cancelled(state, row, now); }
void Tally::delivered(State& state, const RequestRow& row, Tokens count, Seconds when) const {
  summary.delivered(state, row, count, when);
}
void Tally::planned(State& state, const View& view, const Plan& plan, Seconds virtual_time, Seconds wall_time) const {
  summary.planned(state, view, plan, virtual_time, wall_time);
}
void Tally::iterated(State& state, const IterationRecord& record) { summary.iterated(state, record, 0); }

} // namespace explored

namespace compared {

void collect(const Request& request, const Composed& engine, const explored::Tally::State& recorded,
             sluice::Seconds end, Outcome& outcome) {
  sluice::SystemReport& report = outcome.report;
  report.deposit = request.deposit;
  report.slo_tbt_s = request.slo.tbt.count();
  report.slo_ttft_s = request.slo.ttft.count();
  report.transfer = engine.transfer;
  report.livelock = engine.livelock;
  sluice::collect(report, recorded, end);
  report.ttft_cdf.clear(); // a hundred rows of curves that nobody draws
  report.tbt_cdf.clear();
  report.e2e_cdf.clear();
}

} // namespace compared

// SPDX-License-Identifier: Apache-2.0
// From what was recorded of a run to its row of the report and its trace.
#include "compare/collect.hpp"

#include "sluice/observer/merged.hpp"
#include "sluice/observer/trace_json.hpp"

#include "compare/outcome.hpp"
#include "compare/tenants.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace compared {

namespace {

/// The composition as one would write it: the roles that differ from the defaults.
std::string engine_text(const Composed& engine) {
  std::string text = "Engine<";
  for (const std::string& choice : engine.choices) {
    if (choice.empty()) continue;
    if (text.back() != '<') text += ", ";
    text += choice;
  }
  return text + ">";
}

} // namespace

void collect(const Request& request, const Composed& engine, const Recorder::State& recorded, sluice::Seconds end,
             Outcome& outcome) {
  sluice::SystemReport& report = outcome.report;
  report.deposit = request.deposit;
  report.slo_tbt_s = request.slo.tbt.count();
  report.slo_ttft_s = request.slo.ttft.count();
  report.transfer = engine.transfer;
  report.livelock = engine.livelock;
  report.engine_type = engine_text(engine);
  sluice::collect(report, recorded.summary, end);
  sluice::collect(report, recorded.series);
  sluice::collect(report, recorded.chosen);
  if (request.details) outcome.trace = trace_json(recorded.timeline, report.engine_type);
}

void collect(const Request& request, const Composed& engine, std::span<const Recorder::State* const> recorded,
             sluice::Seconds end, Outcome& outcome) {
  const Tenants& tenants = *request.setup.tenants;
  std::vector<const sluice::Summary::State*> summaries;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    summaries.push_back(&recorded[i]->summary);
    Outcome& own = outcome.tenants.emplace_back();
    collect(request, engine, *recorded[i], end, own);
    own.report.name = tenants.each[i].name;
    own.report.slo_tbt_s = tenants.slo(request, i).tbt.count();
  }
  // All together have one clock, but neither one memory nor one iteration to draw: those are with each.
  outcome.report = outcome.tenants.front().report;
  outcome.report.slo_tbt_s = request.slo.tbt.count();
  outcome.report.series = {};
  outcome.report.iteration = {};
  sluice::collect(outcome.report, sluice::merged(summaries), end);
}

} // namespace compared

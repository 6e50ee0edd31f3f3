// SPDX-License-Identifier: Apache-2.0
// From what was recorded of a run to its row of the report and its trace.
#include "compare/collect.hpp"

#include "sluice/observer/trace_json.hpp"

#include "compare/outcome.hpp"

#include <string>

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
  report.engine_type = engine_text(engine);
  sluice::collect(report, recorded.summary, end);
  sluice::collect(report, recorded.series);
  sluice::collect(report, recorded.chosen);
  if (request.details) outcome.trace = trace_json(recorded.timeline, report.engine_type);
}

} // namespace compared

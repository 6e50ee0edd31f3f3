// SPDX-License-Identifier: Apache-2.0
// What a reviewer asks: each question stands or is open for its own reason, and names whom it concerns.
#include "sluice/report/audit.hpp"
#include "sluice/report/order.hpp"

#include "synthetic.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

using namespace sluice;

namespace {

/// A comparison that a reviewer would accept, except for leads, which its figures decide.
ComparisonReport sound() {
  ComparisonReport report = synthetic::report(4, {1}, false, 40);
  report.workload.seeds = {1, 2, 3, 4, 5, 6, 7, 8};
  report.workload.format = "azure";
  report.workload.windows = true;
  report.workload.redrawn = "in 8 windows of 40";
  report.workload.cautions.clear();
  for (SystemReport& row : report.systems) {
    row.tuned = "as given";
    row.metrics.queue_grows = 0;
    row.metrics.left_out_tokens_share = 0;
    row.metrics.times_preempted = 3;
    row.beyond_grid.emplace();
  }
  return report;
}

AuditLine line_of(const ComparisonReport& report, std::string_view question) {
  for (const AuditLine& line : audit_of(report))
    if (line.question.starts_with(question)) return line;
  return {"", false, "no such question"};
}

} // namespace

TEST_CASE("a sound comparison leaves no question open but who leads in what") {
  for (const AuditLine& line : audit_of(sound()))
    if (!line.question.starts_with("Does one system lead")) CHECK_MESSAGE(line.holds, line.question, " ", line.answer);
}

TEST_CASE("each fault opens its own question, names the system, and no other question") {
  struct Fault {
    std::string_view question;
    std::function<void(ComparisonReport&)> make;
    std::string_view says;
  };
  const auto of = [](auto change) { return [change](ComparisonReport& report) { change(report.systems[1]); }; };
  const std::string name = sound().systems[1].name;
  const Fault faults[] = {
      {"Can differences",
       [](auto& r) {
         r.workload.seeds = {1, 2};
       },
       "few"},
      {"Is it the whole trace", [](auto& r) { r.workload.windows = false; }, "--windows"},
      {"Did every system get", of([](SystemReport& row) { row.tuned.clear(); }), "--tune"},
      {"Does the load", of([](SystemReport& row) { row.metrics.queue_grows = 1; }), name},
      {"Is the horizon",
       [](auto& r) {
         for (SystemReport& row : r.systems) row.metrics.horizon_s = 1e-9;
         mark_short_horizon(r);
       },
       "--horizon"},
      {"Is everybody served", of([](SystemReport& row) { row.metrics.left_out_tokens_share = 0.35; }), "35.0 %"},
      {"Did every run end", of([](SystemReport& row) { row.livelock = "it runs nobody"; }), name},
      {"Are the times",
       [](auto& r) {
         for (SystemReport& row : r.systems) row.beyond_grid.reset();
       },
       "--profile"},
      {"Is the machine", [](auto& r) { r.workload.cautions = {"its sliding window is ignored"}; }, "sliding"},
      {"Is memory the limit",
       [](auto& r) {
         for (SystemReport& row : r.systems)
           row.metrics.times_preempted = row.metrics.blocks_to_host = row.metrics.refused = 0;
       },
       "memory never fills"},
  };
  for (const Fault& fault : faults) {
    ComparisonReport report = sound();
    fault.make(report);
    CAPTURE(fault.question);
    const AuditLine line = line_of(report, fault.question);
    CHECK_FALSE(line.holds);
    CHECK_MESSAGE(line.answer.find(fault.says) != std::string::npos, line.answer);
    for (const AuditLine& other : audit_of(report))
      if (other.question != line.question && !other.question.starts_with("Does one system lead"))
        CHECK_MESSAGE(other.holds, other.question, " ", other.answer);
    CHECK(audit_text(report).find("ASK  " + std::string{line.question}) != std::string::npos);
    CHECK(audit_html(report).find("<b>open</b>") != std::string::npos);
  }
}

TEST_CASE("an oracle is named, and is no fault: it is marked") {
  ComparisonReport report = sound();
  report.systems[2].oracle = true;
  report.systems[2].name = "Seer";
  const AuditLine line = line_of(report, "Does nobody know");
  CHECK(line.holds);
  CHECK(line.answer.starts_with("Seer: marked"));
  report.baseline = "Seer";
  CHECK_FALSE(line_of(report, "Does nobody know").holds);
}

// SPDX-License-Identifier: Apache-2.0
#include "sluice/report/leads.hpp"
#include "sluice/report/table.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

/// A row with these TBT attainments, each of `times` seeds, and otherwise the same figures as all others.
SystemReport attaining(const std::string& name, const std::vector<double>& seeds, int times = 2) {
  SystemReport row;
  row.name = name;
  for (const double seed : seeds)
    for (int i = 0; i < times; ++i) {
      Metrics one;
      one.tbt_attainment = seed;
      row.per_seed.push_back(one);
    }
  row.livelocks.resize(row.per_seed.size());
  row.metrics = mean_metrics(row.per_seed);
  return row;
}

ComparisonReport report_of(std::vector<SystemReport> rows) {
  ComparisonReport report;
  report.systems = std::move(rows);
  for (std::size_t seed = 1; seed <= report.systems.front().per_seed.size(); ++seed)
    report.workload.seeds.push_back(seed);
  return report;
}

/// The only line of the only block. `after`: what follows it.
std::string only_line(const ComparisonReport& report, std::string_view after = "") {
  const std::string text = leads_text(report), first = "  TBT attainment: ";
  const std::size_t at = text.find(first);
  REQUIRE(at != std::string::npos);
  const std::size_t end = text.find('\n', at);
  CHECK(text.substr(end + 1) == after);
  return text.substr(at + first.size(), end - at - first.size());
}

} // namespace

TEST_CASE("a lead is stated only beyond a tie with every other system") {
  const SystemReport low = attaining("Low", {0.5, 0.52, 0.49, 0.51}), high = attaining("High", {0.8, 0.82, 0.79, 0.83});
  const SystemReport near = attaining("Near", {0.83, 0.78, 0.81, 0.8}); // in one seed above High, in one below
  CHECK(only_line(report_of({low, high})) == "High leads with 81.0 %, beyond a tie with the other");
  CHECK(only_line(report_of({low, high, attaining("Least", {0.1, 0.2, 0.1, 0.2})})) ==
        "High leads with 81.0 %, beyond a tie with each of the other 2");
  CHECK(only_line(report_of({low, high, near})) ==
        "no lead: High, with 81.0 %, is in a tie with Near; ahead of the other");
  CHECK(only_line(report_of({high, near})) == "no lead: High, with 81.0 %, is in a tie with Near");
  CHECK(leads_text(report_of({low, high})).starts_with("Who leads without deposit, in 8 seeds:\n"));
  // Four seeds decide nothing.
  CHECK(only_line(report_of({attaining("Low", {0.5, 0.52, 0.49, 0.51}, 1), attaining("High", {0.8, 0.8, 0.8, 0.8}, 1)}),
                  "  fewer than six seeds decide nothing; --seeds 1..8\n") ==
        "no lead: High, with 80.0 %, is in a tie with Low");
  // Of windows each must win all of six at least.
  const std::vector<double> six(6, 0.5), more(6, 0.8);
  ComparisonReport windows = report_of({attaining("Low", six, 1), attaining("High", more, 1)});
  windows.workload.windows = windows.systems[0].windows = windows.systems[1].windows = true;
  CHECK(leads_text(windows).starts_with("Who leads without deposit, in 6 windows:\n"));
}

TEST_CASE("a tie with many systems names two of them") {
  std::vector<SystemReport> rows;
  for (const char* name : {"A", "B", "C", "D", "E"}) {
    const double more = static_cast<double>(rows.size()) / 1000;
    rows.push_back(attaining(name, {0.8 - more, 0.7 + more, 0.6 - 2 * more, 0.9}));
  }
  const std::vector<SystemReport> four(rows.begin(), rows.begin() + 4);
  CHECK(only_line(report_of(four)) == "no lead: A, with 75.0 %, is in a tie with B, C and D");
  CHECK(only_line(report_of(rows)) == "no lead: A, with 75.0 %, is in a tie with B, C and 2 more");
}

TEST_CASE("controls, livelocked systems, parts of others and duplicates lead in nothing") {
  const SystemReport low = attaining("Low", {0.5, 0.52, 0.49, 0.51}), high = attaining("High", {0.8, 0.82, 0.79, 0.83});
  SystemReport control = attaining("One", {1, 1, 1, 1}), livelocked = control, part = control, twin = high;
  control.control = true;
  livelocked.name = "Stuck";
  livelocked.livelock = "livelocked";
  part.name = "High/small";
  twin.name = "HighAgain";
  CHECK(only_line(report_of({low, control, livelocked, part, twin, high})) ==
        "High leads with 81.0 %, beyond a tie with the other");
  CHECK(leads_text(report_of({high, control, livelocked, part, twin})).empty()); // nobody to compare it with
}

TEST_CASE("of E2E of all the shortest leads, until the common end of each pair") {
  const auto row = [](const std::string& name, double first, double second) {
    SystemReport made = attaining(name, {0.5, 0.5}, 4);
    std::size_t seed = 0;
    for (Metrics& one : made.per_seed) {
      one.mean_e2e_all_s = seed++ % 2 == 0 ? first : second;
      one.requests = one.served = 10;
      one.end_s = 100;
    }
    made.metrics = mean_metrics(made.per_seed);
    return made;
  };
  const std::string text = leads_text(report_of({row("Long", 60, 60.2), row("Short", 20, 20.2)}));
  CHECK(text.find("  TBT attainment: no lead: Short, with 50.0 %, is in a tie with Long\n") != std::string::npos);
  CHECK(text.find("  mean E2E to a common end: Short leads with 20.1 s, beyond a tie with the other\n") !=
        std::string::npos);
}

TEST_CASE("one seed has no leads, and blocks of several SLO scales are named") {
  CHECK(leads_text(report_of({attaining("A", {0.5}, 1), attaining("B", {0.6}, 1)})).empty());
  CHECK(leads_text({}).empty());
  SystemReport low = attaining("Low", {0.5, 0.52, 0.49, 0.51}), high = attaining("High", {0.8, 0.82, 0.79, 0.83});
  SystemReport low_twice = low, high_twice = high;
  low_twice.slo_scale = high_twice.slo_scale = 2;
  low_twice.deposit = high_twice.deposit = true;
  const std::string text = leads_text(report_of({low, high, low_twice, high_twice}));
  CHECK(text.find("Who leads without deposit, SLO x1, in 8 seeds:\n") != std::string::npos);
  CHECK(text.find("Who leads with token deposit, SLO x2, in 8 seeds:\n") != std::string::npos);
}

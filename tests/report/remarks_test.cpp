// SPDX-License-Identifier: Apache-2.0
// Iterations beyond a profile's grid: summed over seeds, said in one remark, and in report.json. Decisions that cost
// more than the simulation charges are said, whatever this machine's speed and load.
#include "sluice/report/json.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/seeds.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

SystemReport run_of(std::string name, BeyondReport beyond) {
  SystemReport row;
  row.name = std::move(name);
  row.beyond_grid = std::move(beyond);
  row.metrics.bytes_moved = 1; // otherwise a remark says that memory never fills
  return row;
}

SystemReport run_of(UnpaidReport unpaid) {
  SystemReport row;
  row.name = "A";
  row.unpaid = unpaid;
  row.metrics.bytes_moved = 1; // otherwise a remark says that memory never fills
  return row;
}

} // namespace

TEST_CASE("seeds add their iterations, and keep the size that is furthest beyond") {
  std::vector<SystemReport> runs{run_of("A", {.iterations = 100}), run_of("A", {100, 10, "batch", 512, 256}),
                                 run_of("A", {200, 30, "prompt chunk", 8192, 2048})};
  const SystemReport row = joined(std::move(runs), {1, 2, 3});
  REQUIRE(row.beyond_grid);
  CHECK(row.beyond_grid->share() == doctest::Approx(0.1));
  CHECK(row.beyond_grid->largest() == "prompt chunk 8192, the grid ends at 2048");
}

TEST_CASE("a remark says which share of the iterations extrapolates, and whose is the largest") {
  const SystemReport within = run_of("A", {.iterations = 100}), some = run_of("B", {100, 24, "batch", 2048, 256});
  const SystemReport unmeasured;
  CHECK(beyond_remark(std::vector{&within}).empty());
  CHECK(beyond_remark(std::vector{&unmeasured}).empty());
  CHECK(beyond_remark(std::vector{&within, &some}) ==
        "12.0 % of iterations extrapolate beyond the profile's grid, of B's 24.0 % (largest: batch 2048, the grid ends "
        "at 256)");
  CHECK(remarks_of({false, 1, {&within, &some}}).back() == beyond_remark(std::vector{&within, &some}));
}

TEST_CASE("report.json has the share and the size, and cautions of the workload") {
  ComparisonReport report;
  report.workload.cautions = {"times measured on an unnamed GPU"};
  report.systems = {run_of("A", {100, 24, "batch", 2048, 256}), run_of("B", {.iterations = 10})};
  const auto json = nlohmann::json::parse(report_json(report));
  CHECK(json.at("workload").at("cautions").at(0) == "times measured on an unnamed GPU");
  CHECK(json.at("systems").at(0).at("beyond_grid").at("share_of_iterations") == 0.24);
  CHECK(json.at("systems").at(0).at("beyond_grid").at("largest") == "batch 2048, the grid ends at 256");
  CHECK(json.at("systems").at(1).at("beyond_grid").at("share_of_iterations") == 0);
}

TEST_CASE("a decision is unpaid above 5 ms, half of its iteration and ten times what it is charged") {
  CHECK(is_unpaid(0.050, 0, 0.023));       // a relief of 50 ms a choice
  CHECK_FALSE(is_unpaid(0.050, 0, 0.100)); // half of the iteration, not more
  CHECK_FALSE(is_unpaid(0.050, 0.005, 0)); // ten times, not more
  CHECK(is_unpaid(0.050, 0.0049, 0.099));
  CHECK_FALSE(is_unpaid(0.005, 0, 0)); // as long as a planner may take that is charged for it
}

TEST_CASE("three unpaid decisions are remarked, over all seeds, and two are not") {
  const SystemReport slow = run_of({27, 1.35}), few = run_of({2, 1});
  const std::vector<std::string> remarks = remarks_of({false, 1, {&slow}});
  REQUIRE(remarks.size() == 1);
  CHECK(remarks[0] ==
        "27 decisions computed for 50 ms each on this machine, more than ten times what they are charged: "
        "the simulated clock charges for placements alone (A)");
  CHECK(remarks_of({false, 1, {&few}}).empty());
  std::vector<SystemReport> runs{few, few};
  CHECK(joined(std::move(runs), {1, 2}).unpaid.decisions == 4);
}

TEST_CASE("a lap is what the thread computed, and not what it waited for") {
  LapClock clock;
  double wall = 100, thread = 7;
  int reads = 0;
  const auto lap = [&](double waits, double computes) {
    wall += waits + computes;
    thread += computes;
    return clock.lap(wall, [&] {
      ++reads;
      return thread;
    });
  };
  CHECK(lap(0, 1) == 0); // the first call only starts it
  for (int i = 0; i < 10; ++i) CHECK(lap(0, 1e-6) == 0);
  CHECK(lap(0, 0.05) == doctest::Approx(0.05));
  CHECK(lap(3, 0.001) == doctest::Approx(0.001)); // another process had the processor
  const int before = reads;
  for (int i = 0; i < 640; ++i) CHECK(lap(0, 1e-6) == 0);
  CHECK(reads - before == 10);
  for (int i = 0; i < 5; ++i) lap(0.002, 0.001); // too short to look at, so their time is subtracted whole
  CHECK(lap(0, 0.05) == doctest::Approx(0.05 - 5 * 0.002));
}

// SPDX-License-Identifier: Apache-2.0
// Iterations beyond a profile's grid: summed over seeds, said in one remark, and in report.json.
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

// SPDX-License-Identifier: Apache-2.0
// A run whose decisions cost more than the simulation charges says so, whatever this machine's speed.
#include "sluice/report/order.hpp"
#include "sluice/report/seeds.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

/// A run that computed for `processor_s`, whose plans are charged `charged_s` and whose iterations take `busy_s`.
SystemReport run_of(double processor_s, double charged_s, double busy_s) {
  SystemReport row;
  row.name = "A";
  row.processor_s = processor_s;
  row.metrics.planning_s = charged_s;
  row.metrics.busy_s = busy_s;
  row.metrics.bytes_moved = 1; // otherwise a remark says that memory never fills
  return row;
}

} // namespace

TEST_CASE("a run is said to hide time above ten times what it is charged and a tenth of its iterations' time") {
  CHECK(computes_unpaid(11, 1, 100));
  CHECK_FALSE(computes_unpaid(10, 1, 99));  // ten times, not more
  CHECK_FALSE(computes_unpaid(11, 0, 110)); // a tenth, not more
  CHECK(computes_unpaid(11, 0, 109));
  CHECK_FALSE(computes_unpaid(0, 0, 0)); // not measured
}

TEST_CASE("a relief of 50 ms a choice is remarked, and a planner that is charged is not") {
  const SystemReport slow = run_of(20, 0.1, 100), charged = run_of(20, 3, 100);
  const std::vector<std::string> remarks = remarks_of({false, 1, {&slow}});
  REQUIRE(remarks.size() == 1);
  CHECK(remarks[0] == "its run computed for 20 s on this machine, its iterations take 100 s and its plans are charged "
                      "100 ms: time of decisions outside placements is not simulated (A)");
  CHECK(remarks_of({false, 1, {&charged}}).empty());
}

TEST_CASE("a row of several seeds has their mean processor time") {
  std::vector<SystemReport> runs{run_of(1, 0, 1), run_of(2, 0, 1), run_of(6, 0, 1)};
  CHECK(joined(std::move(runs), {1, 2, 3}).processor_s == doctest::Approx(3));
}

// SPDX-License-Identifier: Apache-2.0
// Decisions that cost more than the simulation charges are said, whatever this machine's speed and load.
#include "sluice/report/order.hpp"
#include "sluice/report/seeds.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

SystemReport run_of(UnpaidReport unpaid) {
  SystemReport row;
  row.name = "A";
  row.unpaid = unpaid;
  row.metrics.bytes_moved = 1; // otherwise a remark says that memory never fills
  return row;
}

} // namespace

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

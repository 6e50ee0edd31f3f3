// SPDX-License-Identifier: Apache-2.0
// FaultPlan: no faults by default; the same fault for the same copy; faults as often as stated.
#include "sluice/world/link/copy.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace sluice;

TEST_CASE("there are no faults by default") {
  const FaultPlan plan;
  CHECK_FALSE(plan.any());
  for (std::uint64_t tag = 0; tag < 1000; ++tag) {
    const Fault fault = plan.of(Way::to_host, tag, 0);
    CHECK_FALSE(fault.fails);
    CHECK(fault.moved == 1);
    CHECK(fault.delay == Seconds{0});
    CHECK(fault.slowdown == 1);
  }
}

TEST_CASE("a fault depends only on seed, tag and try, and faults are as frequent as stated") {
  FaultPlan plan{.seed = 9, .failing = 0.3, .most_delay = Seconds{1e-3}, .least_slowdown = 2, .most_slowdown = 5};
  CHECK(plan.any());
  FaultPlan other = plan;
  other.seed = 10;
  constexpr int copies = 20'000;
  int first = 0, second = 0, both = 0, as_other = 0;
  double delay_s = 0, slowdown = 0;
  for (std::uint64_t tag = 0; tag < copies; ++tag) {
    const Fault a = plan.of(Way::to_device, tag, 0), b = plan.of(Way::to_device, tag, 1);
    const Fault again = plan.of(Way::to_host, tag, 0);
    REQUIRE(a.fails == again.fails);
    REQUIRE(a.delay == again.delay);
    REQUIRE(a.slowdown == again.slowdown);
    REQUIRE(a.delay >= Seconds{0});
    REQUIRE(a.delay <= Seconds{1e-3});
    REQUIRE(a.slowdown >= 2);
    REQUIRE(a.slowdown <= 5);
    REQUIRE((a.fails ? a.moved < 1 : a.moved == 1));
    first += a.fails;
    second += b.fails;
    both += a.fails && b.fails;
    as_other += a.fails == other.of(Way::to_device, tag, 0).fails;
    delay_s += a.delay.count();
    slowdown += a.slowdown;
  }
  CHECK(first == doctest::Approx(0.3 * copies).epsilon(0.05));
  CHECK(second == doctest::Approx(0.3 * copies).epsilon(0.05));
  CHECK(both == doctest::Approx(0.09 * copies).epsilon(0.1)); // tries are independent
  CHECK(as_other == doctest::Approx(0.58 * copies).epsilon(0.05));
  CHECK(delay_s / copies == doctest::Approx(0.5e-3).epsilon(0.05));
  CHECK(slowdown / copies == doctest::Approx(3.5).epsilon(0.05));
}

TEST_CASE("failing tags and ways always fail, tags that fail once do so once, and others never") {
  FaultPlan plan;
  plan.tags_failing = {3, 5};
  plan.tags_failing_once = {4};
  plan.to_host_fails = true;
  CHECK(plan.any());
  for (std::uint64_t tag = 0; tag < 10; ++tag)
    for (int attempt = 0; attempt < 2; ++attempt) {
      CHECK(plan.of(Way::to_device, tag, attempt).fails == (tag == 3 || tag == 5 || (tag == 4 && attempt == 0)));
      CHECK(plan.of(Way::to_host, tag, attempt).fails);
    }
}

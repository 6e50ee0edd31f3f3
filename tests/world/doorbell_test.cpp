// SPDX-License-Identifier: Apache-2.0
// Doorbell: no ring is missed, and a wait without a ring ends on time.
#include "sluice/world/real/async_thread.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

using namespace sluice;
using Time = std::chrono::duration<double>;

namespace {
constexpr Time forever{std::numeric_limits<double>::infinity()};
constexpr Time far{1e9};
} // namespace

TEST_CASE("a ring before the wait wakes it, once") {
  Doorbell bell;
  bell.ring();
  bell.ring();
  CHECK(bell.wait_for(forever));
  CHECK_FALSE(bell.hear());
  CHECK_FALSE(bell.wait_for(Time{0.002}));
  bell.ring();
  CHECK(bell.hear());
  CHECK_FALSE(bell.wait_for(Time{-1}));
}

TEST_CASE("a wait without a ring takes its full time") {
  Doorbell bell;
  const auto begun = std::chrono::steady_clock::now();
  CHECK_FALSE(bell.wait_for(Time{0.03}));
  CHECK(Time{std::chrono::steady_clock::now() - begun} >= Time{0.03});
}

TEST_CASE("an infinite wait ends at every ring from another thread") {
  Doorbell bell;
  std::atomic<int> arrived{0};
  int seen = 0;
  std::thread ringer{[&] {
    for (int i = 0; i < 2000; ++i) {
      arrived.fetch_add(1);
      bell.ring();
      if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds{200});
    }
  }};
  while (seen < 2000) { // a missed ring would hang the test
    CHECK(bell.wait_for(seen % 2 == 0 ? forever : far));
    seen = arrived.load();
  }
  ringer.join();
}

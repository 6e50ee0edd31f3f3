// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/serve/served_requests.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace sluice;
using namespace std::chrono_literals;

namespace {

ServedRequest request(std::uint32_t id) {
  ServedRequest one;
  one.id = RequestId{id};
  one.spec.arrival = Seconds{static_cast<double>(id ^ 4U)}; // a gate has held some
  one.generated = Tokens{1};
  return one;
}

} // namespace

TEST_CASE("ServedRequests keeps the last ten minutes in order of arrival") {
  const ServedRequests::Clock::time_point start{1000s};
  Random random(5);
  ServedRequests served;
  auto at = start;
  std::vector<std::pair<std::uint32_t, ServedRequests::Clock::time_point>> all;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    at += std::chrono::milliseconds(random.below(2000));
    all.emplace_back(i ^ 3U, at); // in another order than they arrived
    served.over(request(i ^ 3U), at);
    if (i % 97 != 0) continue;
    const auto now = at + std::chrono::seconds(random.below(300));
    const ServedRequests::Copy copy = served.copy(now);
    std::size_t expected = 0;
    for (const auto& [id, ended] : all) expected += now - ended <= 600s ? 1U : 0U;
    CHECK(copy.requests.size() == expected);
    CHECK(copy.total == static_cast<std::int64_t>(i) + 1);
    CHECK_FALSE(copy.crowded);
    for (std::size_t j = 1; j < copy.requests.size(); ++j)
      CHECK(copy.requests[j - 1].spec.arrival < copy.requests[j].spec.arrival);
    at = now;
  }
  CHECK(served.copy(at + 601s).requests.empty());
  CHECK(served.total() == 2000);
}

TEST_CASE("ServedRequests is bounded, and reports when the bound rather than age dropped requests") {
  const ServedRequests::Clock::time_point start{1000s};
  ServedRequests served;
  for (std::uint32_t i = 0; i < ServedRequests::most; ++i) served.over(request(i), start);
  CHECK(served.copy(start).requests.size() == ServedRequests::most);
  CHECK_FALSE(served.copy(start).crowded);
  for (std::uint32_t i = 0; i < 100; ++i)
    served.over(request(static_cast<std::uint32_t>(ServedRequests::most) + i), start + 60s);
  const ServedRequests::Copy copy = served.copy(start + 60s);
  CHECK(copy.requests.size() == ServedRequests::most);
  CHECK(index(copy.requests.front().id) == 100);
  CHECK(copy.crowded);
  const ServedRequests::Copy later = served.copy(start + 601s); // the dropped requests would be too old by now
  CHECK(later.requests.size() == 100);
  CHECK_FALSE(later.crowded);
}

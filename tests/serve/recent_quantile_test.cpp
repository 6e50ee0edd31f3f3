// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/serve/slo_class_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace sluice;

TEST_CASE("RecentQuantile: nearest rank of the newest values, as sorting them says") {
  Random random(5);
  for (int trial = 0; trial < 100; ++trial) {
    const auto window = static_cast<std::size_t>(1 + random.below(40));
    RecentQuantile recent(window);
    CHECK(recent.quantile(0.99) == 0);
    std::vector<double> all;
    for (std::uint64_t i = random.below(120) + 1; i > 0; --i) {
      all.push_back(random.uniform() - 0.5);
      recent.add(all.back());
    }
    const std::size_t kept = std::min(window, all.size());
    CHECK(recent.size() == kept);
    std::vector<double> newest(all.end() - static_cast<std::ptrdiff_t>(kept), all.end());
    std::sort(newest.begin(), newest.end());
    for (const double share : {0.01, 0.5, 0.9, 0.99, 1.0}) {
      const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(kept)));
      CHECK(recent.quantile(share) == newest[std::max<std::size_t>(rank, 1) - 1]);
    }
  }
}

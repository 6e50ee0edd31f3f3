// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/report/observer/timeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace sluice;

TEST_CASE("the surroundings of the peak are kept, wherever it is, in bounded memory") {
  Random random(11);
  for (int trial = 0; trial < 3000; ++trial) {
    const std::size_t capacity = 2 + random.below(12), before = capacity / 2, count = 1 + random.below(60);
    PeakWindow<std::size_t> kept;
    std::vector<std::uint64_t> weights;
    std::size_t peak = 0;
    for (std::size_t i = 0; i < count; ++i) {
      weights.push_back(random.below(trial % 2 == 0 ? 5 : 1000) + (trial % 3 == 0 ? i : 0)); // many equal; ascending
      const bool more = i == 0 || weights[i] > weights[peak];
      if (more) peak = i;
      kept.push(capacity, more) = i;
      REQUIRE(kept.peak() == peak);
      REQUIRE(kept.size() <= capacity);
    }
    CAPTURE(capacity);
    CAPTURE(count);
    CAPTURE(peak);
    CHECK(kept.seen() == static_cast<std::int64_t>(count));
    for (std::size_t i = 0; i + 1 < kept.size(); ++i) REQUIRE(kept[i + 1] == kept[i] + 1);
    const std::size_t first = kept.front(), last = kept.back();
    CHECK(first <= peak);
    CHECK(peak <= last);
    CHECK(peak - first >= std::min(peak, before));
    CHECK(last - peak >= std::min(count - 1 - peak, capacity - 1 - before));
    if (count <= capacity) CHECK(kept.size() == count);
    if (peak - first > before) CHECK(last == count - 1); // more of the earlier ones only if there are no later ones
  }
}

TEST_CASE("an item's memory is reused") {
  PeakWindow<std::vector<int>> kept;
  std::size_t fresh = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<int>& place = kept.push(8, i == 0 || i == 500);
    fresh += place.capacity() == 0 ? 1U : 0U;
    place.assign(100, i);
  }
  CHECK(fresh <= 3 * 8 / 2 + 8);
}

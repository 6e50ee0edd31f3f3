// SPDX-License-Identifier: Apache-2.0
// move_bytes: does what memcpy does, and nothing else.
#include "sluice/core/random.hpp"
#include "sluice/world/cpu/copy_engine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace sluice;

TEST_CASE("copies of any size and alignment write exactly their bytes") {
  Random random{7};
  std::vector<std::byte> from(10'000);
  for (std::byte& one : from) one = static_cast<std::byte>(1 + random.below(255));
  for (int round = 0; round < 3'000; ++round) {
    const auto size = static_cast<std::int64_t>(random.below(round % 2 == 0 ? 300 : 8'000));
    const auto source = static_cast<std::int64_t>(random.below(2'000));
    const auto target = static_cast<std::int64_t>(random.below(2'000));
    CAPTURE(size);
    CAPTURE(source);
    CAPTURE(target);
    std::vector<std::byte> to(10'000, std::byte{0});
    const std::int64_t first =
        round % 3 == 0 ? static_cast<std::int64_t>(random.below(1 + static_cast<std::uint64_t>(size))) : size;
    move_bytes(to.data() + target, from.data() + source, first, size - first);
    move_bytes(to.data() + target + first, from.data() + source + first, size - first);
    REQUIRE(std::equal(to.begin() + target, to.begin() + target + size, from.begin() + source));
    const auto untouched = [](std::byte one) { return one == std::byte{0}; };
    REQUIRE(std::all_of(to.begin(), to.begin() + target, untouched));
    REQUIRE(std::all_of(to.begin() + target + size, to.end(), untouched));
  }
}

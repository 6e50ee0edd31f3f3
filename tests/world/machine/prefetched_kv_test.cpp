// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/world/machine/prefetched_kv.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace sluice {
namespace {

/// Whether each layer finds room for the blocks that it lacks, with these evictions: by what is on the device, layer
/// after layer.
bool all_find_room(const std::vector<PassingBlocks>& layers, std::int64_t spare,
                   const std::vector<std::int64_t>& evicted) {
  std::int64_t free = spare + std::accumulate(evicted.begin(), evicted.end(), std::int64_t{0});
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::int64_t fetched = layers[layer].missing + evicted[layer];
    if (fetched > free) return false;            // below 0 also if it fetches none: KV that stays has no room
    free += layers[layer].here - evicted[layer]; // all that passed in the layer have left
  }
  return true;
}

/// Of all evictions with which every layer finds room, those of the fewest blocks; of these, the latest ones.
std::optional<std::vector<std::int64_t>> fewest(const std::vector<PassingBlocks>& layers, std::int64_t spare) {
  std::optional<std::vector<std::int64_t>> best;
  std::vector<std::int64_t> evicted(layers.size());
  const auto sum = [](const std::vector<std::int64_t>& of) {
    return std::accumulate(of.begin(), of.end(), std::int64_t{0});
  };
  const auto better = [&] {
    if (!best) return true;
    if (sum(evicted) != sum(*best)) return sum(evicted) < sum(*best);
    return std::lexicographical_compare(best->rbegin(), best->rend(), evicted.rbegin(), evicted.rend());
  };
  for (;;) {
    if (all_find_room(layers, spare, evicted) && better()) best = evicted;
    std::size_t layer = 0;
    for (; layer < layers.size() && evicted[layer] == layers[layer].here; ++layer) evicted[layer] = 0;
    if (layer == layers.size()) return best;
    ++evicted[layer];
  }
}

} // namespace

TEST_CASE("the fewest prefetched blocks go with which every layer finds room, those of the last layers first") {
  Random random(23);
  std::vector<std::int64_t> evicted;
  int some = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    CAPTURE(trial);
    std::vector<PassingBlocks> layers(2 + random.below(4));
    for (PassingBlocks& layer : layers) {
      layer.here = static_cast<std::int64_t>(random.below(4));
      layer.missing = static_cast<std::int64_t>(random.below(5));
    }
    const auto spare = static_cast<std::int64_t>(random.below(9)) - 3;
    const std::optional<std::vector<std::int64_t>> expected = fewest(layers, spare);
    const std::int64_t lacks = choose_evictions(layers, spare, evicted);
    REQUIRE(evicted.size() == layers.size());
    if (expected) CHECK(evicted == *expected);
    if (!expected) CHECK(lacks > 0);
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      CHECK(evicted[layer] >= 0);
      CHECK(evicted[layer] <= layers[layer].here);
    }
    if (lacks == 0) CHECK(std::count(evicted.begin(), evicted.end(), 0) == static_cast<std::ptrdiff_t>(layers.size()));
    some += expected && lacks > 0 ? 1 : 0;
  }
  CHECK(some > 300);
}

} // namespace sluice

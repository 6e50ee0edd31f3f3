// SPDX-License-Identifier: Apache-2.0
#include "sluice/state/plan/instance.hpp"
#include "sluice/state/plan/space.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace sluice::test {
namespace {

TEST_CASE("the distance space has |D(L)| counts, the largest distance of each, nothing and everything") {
  for (int layers = 1; layers <= max_layers; ++layers) {
    INFO("layers " << layers);
    std::vector<LayerSet> sets;
    DistanceSpace::candidates(LayerSet::all(layers), sets);
    std::set<int> counts; // from the definition
    for (int k = 2; k <= layers; ++k) counts.insert(layers / k);
    if (layers == 32) CHECK(counts.size() == 9);
    std::set<int> wanted = counts;
    wanted.insert(0);
    wanted.insert(layers);
    REQUIRE(sets.size() == wanted.size());
    std::size_t position = 0;
    for (const int count : wanted) {
      CHECK(sets[position].count() == count);
      if (count > 0) {
        int largest = 0;
        for (int k = 1; k <= layers; ++k)
          if (layers / k == count) largest = k;
        CHECK(sets[position] == every_kth_layer(layers, largest));
      }
      ++position;
    }
  }
}

TEST_CASE("|D(L)| is at most 2 floor(sqrt(L)) - 1 for all L to 256") {
  for (int layers = 2; layers <= 256; ++layers) {
    std::set<int> counts;
    for (int k = 2; k <= layers; ++k) counts.insert(layers / k);
    CHECK(static_cast<int>(counts.size()) <= 2 * static_cast<int>(std::sqrt(layers)) - 1);
  }
}

TEST_CASE("the even space spreads every count, and the free space has every subset") {
  for (int layers = 1; layers <= max_layers; ++layers) {
    std::vector<LayerSet> sets;
    EvenSpace::candidates(LayerSet::all(layers), sets);
    REQUIRE(sets.size() == static_cast<std::size_t>(layers) + 1);
    for (int count = 1; count <= layers; ++count) {
      const LayerSet set = sets[static_cast<std::size_t>(count)];
      CHECK(set.count() == count);
      CHECK(set.contains(layers - 1));
      int previous = -1;
      set.for_each([&](int layer) { // gaps differ by one layer at most
        CHECK(layer - previous >= layers / count);
        CHECK(layer - previous <= (layers + count - 1) / count);
        previous = layer;
      });
    }
  }
  std::vector<LayerSet> sets;
  FreeSpace::candidates(LayerSet::all(6), sets);
  std::sort(sets.begin(), sets.end());
  CHECK(sets.size() == 64);
  CHECK(std::adjacent_find(sets.begin(), sets.end()) == sets.end());
}

TEST_CASE("nested sets of layers have the requested size, contain smaller sets, and have gaps at most twice "
          "as wide as even ones") {
  for (int layers = 1; layers <= max_layers; ++layers) {
    LayerSet fewer;
    for (int count = 0; count <= layers; ++count) {
      const LayerSet set = nested_layers(layers, count);
      INFO(count << " of " << layers);
      CHECK(set.count() == count);
      CHECK((fewer - set).empty());
      fewer = set;
      if (count > 0 && (count & (count - 1)) == 0 && layers % count == 0)
        CHECK(set == evenly_spaced_layers(layers, count));
      int gap = 0, widest = 0; // layers before each member of the set that are not in it; the last layer always is
      for (int layer = 0; layer < layers; ++layer) {
        gap = set.contains(layer) ? 0 : gap + 1;
        widest = std::max(widest, gap);
      }
      if (count > 0) CHECK(widest <= 2 * ((layers + count - 1) / count));
    }
  }
}

TEST_CASE("an inconsistent instance is refused in one line") {
  Instance good;
  good.layer_compute_s.assign(4, 1.0);
  good.requests.resize(1);
  CHECK(check(good).ok());
  const auto refused = [&](auto&& change) {
    Instance bad = good;
    change(bad);
    const Status status = check(bad);
    REQUIRE(!status.ok());
    CHECK(status.error().line().find('\n') == std::string::npos);
    CHECK(!status.error().expected.empty());
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  refused([&](Instance& i) { i.layer_compute_s.clear(); });
  refused([&](Instance& i) { i.layer_compute_s.assign(129, 1.0); });
  refused([&](Instance& i) { i.layer_compute_s[2] = nan; });
  refused([&](Instance& i) { i.layer_compute_s[2] = -1; });
  refused([&](Instance& i) { i.link_blocks_per_s = 0; });
  refused([&](Instance& i) { i.link_blocks_per_s = nan; });
  refused([&](Instance& i) { i.device_blocks = LayerBlocks{-1}; });
  refused([&](Instance& i) { i.requests[0].blocks = LayerBlocks{-3}; });
  refused([&](Instance& i) { i.requests[0].slo_s = nan; });
  refused([&](Instance& i) { i.alpha = -1; });
  refused([&](Instance& i) { i.window_min = 3; });
  refused([&](Instance& i) { i.iterations = 0; });
  refused([&](Instance& i) { i.deadline_s = nan; });
  KvGroups groups;
  REQUIRE(groups.add(0, {.entry = 64}));
  const KvBlocks kv(groups, Tokens{16});
  const auto in_groups = [&](Instance& i) {
    i.kv = &kv;
    i.among = LayerSet::all(1);
    i.requests[0].tokens = Tokens{5};
  };
  Instance grouped = good;
  in_groups(grouped);
  CHECK(check(grouped).ok());
  refused([&](Instance& i) { i.among = LayerSet::all(5); });
  refused([&](Instance& i) { i.units = 0; });
  refused([&](Instance& i) {
    in_groups(i);
    i.among = {};
  });
  refused([&](Instance& i) {
    in_groups(i);
    i.requests[0].tokens = Tokens{0};
  });
  refused([&](Instance& i) { i.weights = {LayerSet::all(1), 0, 1}; });
  refused([&](Instance& i) { i.weights = {LayerSet::all(1), 1, 0}; });
  refused([&](Instance& i) { i.weights = {LayerSet::all(max_layers), 1, 1}; });
}

} // namespace
} // namespace sluice::test

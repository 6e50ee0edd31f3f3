// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/layer_set.hpp"
#include "sluice/core/random.hpp"

#include <doctest/doctest.h>

#include <set>

using sluice::LayerSet;

TEST_CASE("a LayerSet behaves like a std::set of layers") {
  sluice::Random random(1);
  for (int round = 0; round < 200; ++round) {
    LayerSet set, other;
    std::set<int> expected, other_expected;
    for (int i = 0; i < 60; ++i) {
      const int layer = static_cast<int>(random.below(sluice::max_layers));
      if (random.below(3) == 0) {
        set.erase(layer);
        expected.erase(layer);
      } else {
        set.insert(layer);
        expected.insert(layer);
      }
      const int another = static_cast<int>(random.below(sluice::max_layers));
      other.insert(another);
      other_expected.insert(another);
    }
    std::set<int> visited;
    int last = -1;
    set.for_each([&](int layer) {
      CHECK(layer > last);
      last = layer;
      visited.insert(layer);
    });
    CHECK(visited == expected);
    CHECK(set.count() == static_cast<int>(expected.size()));
    CHECK(set.empty() == expected.empty());
    CHECK(set.lowest() == (expected.empty() ? -1 : *expected.begin()));
    CHECK(set.highest() == (expected.empty() ? -1 : *expected.rbegin()));
    for (int layer = 0; layer < sluice::max_layers; ++layer) {
      CHECK(set.contains(layer) == (expected.count(layer) == 1));
      CHECK((set | other).contains(layer) == (expected.count(layer) + other_expected.count(layer) > 0));
      CHECK((set & other).contains(layer) == (expected.count(layer) * other_expected.count(layer) > 0));
      CHECK((set - other).contains(layer) == (expected.count(layer) == 1 && other_expected.count(layer) == 0));
      CHECK(set.below(layer).count() == std::distance(expected.begin(), expected.lower_bound(layer)));
    }
  }
}

TEST_CASE("all(n) has the first n layers, at every word boundary") {
  for (int layers = 0; layers <= sluice::max_layers; ++layers) {
    CHECK(LayerSet::all(layers).count() == layers);
    CHECK(LayerSet::all(layers).highest() == layers - 1);
  }
}

// SPDX-License-Identifier: Apache-2.0
// Pareto layers against their definition, and who survives a round.
#include "sluice/core/random.hpp"

#include "explore/halving.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

using explored::Costs;

namespace {

std::vector<Costs> random_costs(sluice::Random& random, std::size_t count) {
  std::vector<Costs> all(count);
  for (Costs& one : all)
    for (double& figure : one) figure = static_cast<double>(random.below(4));
  return all;
}

} // namespace

TEST_CASE("a setting is one layer behind the last of those that dominate it") {
  sluice::Random random(3);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Costs> all = random_costs(random, 1 + random.below(12));
    const std::vector<std::size_t> layers = explored::pareto_layers(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t expected = 0;
      for (std::size_t j = 0; j < all.size(); ++j)
        if (explored::dominates(all[j], all[i])) expected = std::max(expected, layers[j] + 1);
      CHECK(layers[i] == expected);
      CHECK_FALSE(explored::dominates(all[i], all[i]));
    }
  }
}

TEST_CASE("survivors are as many as asked for, contain the defaults, and no better layer is left out") {
  sluice::Random random(4);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Costs> all = random_costs(random, 1 + random.below(12));
    const std::size_t keep = 1 + random.below(all.size());
    const std::vector<std::size_t> kept = explored::survivors(all, keep);
    const std::vector<std::size_t> layers = explored::pareto_layers(all);
    CHECK(kept.size() == keep);
    CHECK(std::is_sorted(kept.begin(), kept.end()));
    CHECK(kept.front() == 0);
    for (std::size_t out = 0; out < all.size(); ++out) {
      if (std::find(kept.begin(), kept.end(), out) != kept.end()) continue;
      for (const std::size_t in : kept)
        if (in != 0) CHECK(layers[in] <= layers[out]);
    }
  }
}

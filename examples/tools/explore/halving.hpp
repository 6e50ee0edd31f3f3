// SPDX-License-Identifier: Apache-2.0
// Pareto layers of settings, and who survives a round of successive halving.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace explored {

/// Four figures to be as small as possible: missed share of SLOs, seconds per good request, E2E and gap, the last three
/// relative.
using Costs = std::array<double, 4>;

/// Whether `a` is no worse in any figure and better in one.
[[nodiscard]] inline bool dominates(const Costs& a, const Costs& b) {
  bool better = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
    better = better || a[i] < b[i];
  }
  return better;
}

/// The layer of each: 0 for the Pareto front, 1 for the front of the others, and so on.
[[nodiscard]] inline std::vector<std::size_t> pareto_layers(std::span<const Costs> all) {
  std::vector<std::size_t> layers(all.size(), all.size());
  for (std::size_t layer = 0, left = all.size(); left > 0; ++layer) {
    std::vector<std::size_t> front;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (layers[i] < layer) continue;
      bool beaten = false;
      for (std::size_t j = 0; j < all.size() && !beaten; ++j) beaten = layers[j] >= layer && dominates(all[j], all[i]);
      if (!beaten) front.push_back(i);
    }
    for (const std::size_t i : front) layers[i] = layer;
    left -= front.size();
  }
  return layers;
}

/// The `keep` that go on, in their order: by layer, then by the sum of their ranks in the four figures, then the first
/// ones. The first of all, the defaults, always goes on.
[[nodiscard]] inline std::vector<std::size_t> survivors(std::span<const Costs> all, std::size_t keep) {
  const std::vector<std::size_t> layers = pareto_layers(all);
  std::vector<std::size_t> ranks(all.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const Costs& other : all)
      for (std::size_t figure = 0; figure < other.size(); ++figure) ranks[i] += other[figure] < all[i][figure];
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if ((a == 0) != (b == 0)) return a == 0;
    return layers[a] != layers[b] ? layers[a] < layers[b] : ranks[a] < ranks[b];
  });
  order.resize(std::min(keep, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

} // namespace explored

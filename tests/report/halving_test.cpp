// SPDX-License-Identifier: Apache-2.0
// Successive halving: who goes on, and on how many workloads.
#include "sluice/core/random.hpp"

#include "../examples/tools/compare/halving.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

using compared::better_half;
using compared::rounds_of;

TEST_CASE("the better half goes on: none that is left out has a higher score, and ties go to the first") {
  sluice::Random random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> score(1 + random.below(12));
    for (double& one : score) one = static_cast<double>(random.below(4));
    std::vector<std::size_t> candidates;
    for (std::size_t i = 0; i < score.size(); ++i)
      if (random.below(3) > 0 || candidates.empty()) candidates.push_back(i);
    const std::vector<std::size_t> kept = better_half(candidates, score);
    CHECK(kept.size() == (candidates.size() + 1) / 2);
    CHECK(std::is_sorted(kept.begin(), kept.end()));
    for (const std::size_t out : candidates) {
      if (std::find(kept.begin(), kept.end(), out) != kept.end()) continue;
      for (const std::size_t in : kept) CHECK((score[in] > score[out] || (score[in] == score[out] && in < out)));
    }
  }
}

TEST_CASE("rounds grow to all workloads, and leave one candidate if there are workloads enough") {
  for (std::size_t candidates = 1; candidates <= 40; ++candidates)
    for (std::size_t workloads = 1; workloads <= 40; ++workloads) {
      const std::vector<std::size_t> rounds = rounds_of(candidates, workloads);
      CHECK(rounds.front() >= 1);
      CHECK(rounds.back() == workloads);
      CHECK(std::is_sorted(rounds.begin(), rounds.end()));
      CHECK(std::adjacent_find(rounds.begin(), rounds.end()) == rounds.end());
      std::vector<std::size_t> left(candidates);
      std::iota(left.begin(), left.end(), std::size_t{0});
      for (std::size_t i = 0; i < rounds.size(); ++i) left = better_half(left, std::vector<double>(candidates, 0));
      if (workloads >= candidates) CHECK(left.size() == 1);
      CHECK(left.front() == 0); // the default wins a tie
    }
  CHECK(rounds_of(5, 8) == std::vector<std::size_t>{2, 4, 8});
}

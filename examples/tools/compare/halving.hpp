// SPDX-License-Identifier: Apache-2.0
// Successive halving of one score: many candidates on few workloads, few candidates on many.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace compared {

/// Returns the better half of some candidates by `score`, in their order. Equal scores keep the order, so that the
/// first candidate, which is the default, wins a tie. Jamieson and Talwalkar 2016, "Non-stochastic Best Arm
/// Identification and Hyperparameter Optimization". (sluice-explore halves by four figures at once:
/// explore/halving.hpp.)
[[nodiscard]] inline std::vector<std::size_t> better_half(const std::vector<std::size_t>& candidates,
                                                          const std::vector<double>& score) {
  std::vector<std::size_t> best = candidates;
  std::stable_sort(best.begin(), best.end(), [&](std::size_t a, std::size_t b) { return score[a] > score[b]; });
  best.resize((best.size() + 1) / 2);
  std::sort(best.begin(), best.end());
  return best;
}

/// Returns on how many workloads the remaining candidates have run after each round, ending with `workloads`: 2, 4 and
/// 8 for five candidates, of which the rounds leave three, two and one.
[[nodiscard]] inline std::vector<std::size_t> rounds_of(std::size_t candidates, std::size_t workloads) {
  std::vector<std::size_t> rounds{workloads};
  for (std::size_t left = candidates; left > 2 && rounds.front() > 1; left = (left + 1) / 2)
    rounds.insert(rounds.begin(), (rounds.front() + 1) / 2);
  return rounds;
}

} // namespace compared

// SPDX-License-Identifier: Apache-2.0
// Recipe: how a model is trained, and the learning rate's schedule.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace training {

/// The parameters of a training run. The defaults trained the model in examples/models/demo.
struct Recipe {
  std::int64_t steps = 2200;
  int batch = 8;      ///< windows per step
  double rate = 4e-3; ///< the highest rate, after the warm-up
  std::int64_t warmup = 100;
  double last_share = 0.02; ///< final rate relative to the highest
  double decay = 0.1;       ///< for matrices; norm weights and the embedding do not decay
  double clip = 1;          ///< longest gradient
  double first_momentum = 0.9;
  double second_momentum = 0.98;
  std::uint64_t seed = 1;
};

/// Rises linearly for `warmup` steps, then falls along half a cosine.
[[nodiscard]] inline double rate_at(const Recipe& recipe, std::int64_t step) {
  const double rise = std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(recipe.warmup));
  const double share = static_cast<double>(step) / static_cast<double>(recipe.steps);
  const double fall = 0.5 * (1 + std::cos(std::numbers::pi * share));
  return recipe.rate * rise * (recipe.last_share + (1 - recipe.last_share) * fall);
}

} // namespace training

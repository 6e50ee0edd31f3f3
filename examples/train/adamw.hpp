// SPDX-License-Identifier: Apache-2.0
// AdamW: a step of the optimiser, and the learning rate's schedule.
#pragma once

#include "eigen.hpp"
#include "llama.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

namespace training {

/// What a training run may choose. The defaults trained the model in examples/models/demo.
struct Recipe {
  std::int64_t steps = 2200;
  int batch = 8;      ///< windows a step
  double rate = 4e-3; ///< the highest, after the warm-up
  std::int64_t warmup = 100;
  double last_share = 0.02; ///< of the highest rate at the end
  double decay = 0.1;       ///< of matrices; a norm's weights and the embedding do not decay
  double clip = 1;          ///< the longest gradient
  double first_momentum = 0.9;
  double second_momentum = 0.98;
  std::uint64_t seed = 1;
};

/// Rises evenly for `warmup` steps and falls along half a cosine.
[[nodiscard]] inline double rate_at(const Recipe& recipe, std::int64_t step) {
  const double rise = std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(recipe.warmup));
  const double share = static_cast<double>(step) / static_cast<double>(recipe.steps);
  const double fall = 0.5 * (1 + std::cos(std::numbers::pi * share));
  return recipe.rate * rise * (recipe.last_share + (1 - recipe.last_share) * fall);
}

/// Adam with decay beside the gradient (Loshchilov and Hutter, 2019), after the gradient was clipped to a length.
class AdamW {
 public:
  explicit AdamW(const ParameterPlaces& places) : mean_(places.count), square_(places.count) {}

  /// Returns the gradient's length before it was clipped.
  double step(const ParameterPlaces& places, const Recipe& recipe, std::int64_t at, std::span<const float> gradient,
              std::span<float> weights) {
    double squares = 0;
    for (const ParameterTensor& tensor : places.tensors)
      squares += static_cast<double>(Numbers(gradient.data() + tensor.offset, size_of(tensor)).matrix().squaredNorm());
    const double length = std::sqrt(squares);
    const auto clip = static_cast<float>(std::min(1.0, recipe.clip / std::max(length, 1e-12)));
    const auto rate = static_cast<float>(rate_at(recipe, at));
    const auto one = static_cast<float>(recipe.first_momentum), two = static_cast<float>(recipe.second_momentum);
    const auto count = static_cast<double>(at + 1); // both momenta begin at 0, and are scaled up for it
    const auto first = static_cast<float>(1 / (1 - std::pow(recipe.first_momentum, count)));
    const auto second = static_cast<float>(1 / (1 - std::pow(recipe.second_momentum, count)));
    for (const ParameterTensor& tensor : places.tensors) {
      const Numbers g(gradient.data() + tensor.offset, size_of(tensor));
      MutableNumbers w(weights.data() + tensor.offset, size_of(tensor));
      MutableNumbers mean(mean_.data() + tensor.offset, size_of(tensor));
      MutableNumbers square(square_.data() + tensor.offset, size_of(tensor));
      const bool decays = !tensor.is_vector() && tensor.offset != places.embedding;
      mean = one * mean + ((1 - one) * clip) * g;
      square = two * square + ((1 - two) * clip * clip) * g.square();
      if (decays) w *= 1 - rate * static_cast<float>(recipe.decay);
      w -= rate * (first * mean) / ((second * square).sqrt() + 1e-8F);
    }
    return length;
  }

 private:
  using Numbers = Eigen::Map<const Eigen::ArrayXf>;
  using MutableNumbers = Eigen::Map<Eigen::ArrayXf>;
  static Eigen::Index size_of(const ParameterTensor& tensor) { return static_cast<Eigen::Index>(tensor.count()); }

  std::vector<float> mean_, square_;
};

} // namespace training

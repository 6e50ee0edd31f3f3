// SPDX-License-Identifier: Apache-2.0
// AdamW: one step of the optimiser.
#pragma once

#include "eigen.hpp"
#include "llama.hpp"
#include "numbers.hpp"
#include "recipe.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace training {

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019), after clipping the gradient to a length.
class AdamW {
 public:
  explicit AdamW(const ParameterPlaces& places) : mean_(places.count), square_(places.count) {}

  /// Returns the gradient's length before clipping.
  double step(const ParameterPlaces& places, const Recipe& recipe, std::int64_t at, std::span<const float> gradient,
              std::span<float> weights) {
    double squares = 0; // sequential: Eigen's sum of a map depends on the map's address
    for (const float number : gradient) squares += static_cast<double>(number) * static_cast<double>(number);
    const double length = std::sqrt(squares);
    const auto clip = static_cast<float>(std::min(1.0, recipe.clip / std::max(length, 1e-12)));
    const auto rate = static_cast<float>(rate_at(recipe, at));
    const auto one = static_cast<float>(recipe.first_momentum), two = static_cast<float>(recipe.second_momentum);
    const auto count = static_cast<double>(at + 1); // both momenta begin at 0, and are scaled up to correct for it
    const auto first = static_cast<float>(1 / (1 - std::pow(recipe.first_momentum, count)));
    const auto second = static_cast<float>(1 / (1 - std::pow(recipe.second_momentum, count)));
    for (const ParameterTensor& tensor : places.tensors) {
      const ConstMap g(gradient.data() + tensor.offset, size_of(tensor));
      Map w(weights.data() + tensor.offset, size_of(tensor));
      Map mean(mean_.data() + tensor.offset, size_of(tensor));
      Map square(square_.data() + tensor.offset, size_of(tensor));
      const bool decays = !tensor.is_vector() && tensor.offset != places.embedding;
      mean = one * mean + ((1 - one) * clip) * g;
      square = two * square + ((1 - two) * clip * clip) * g.square();
      if (decays) w *= 1 - rate * static_cast<float>(recipe.decay);
      w -= rate * (first * mean) / ((second * square).sqrt() + 1e-8F);
    }
    return length;
  }

 private:
  using ConstMap = Eigen::Map<const Eigen::ArrayXf>;
  using Map = Eigen::Map<Eigen::ArrayXf>;
  static Eigen::Index size_of(const ParameterTensor& tensor) { return static_cast<Eigen::Index>(tensor.count()); }

  Numbers mean_, square_;
};

} // namespace training

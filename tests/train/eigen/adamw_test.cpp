// SPDX-License-Identifier: Apache-2.0
// The optimiser compared with the paper's recurrence, number by number, and the ends of the schedule.
#include "sluice/core/random.hpp"

#include "../../../examples/train/adamw.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace training;

TEST_CASE("steps of AdamW are the paper's: unbiased momenta, decay separate from the gradient, clipped gradients") {
  const LlamaShape shape{
      .vocabulary = 11, .hidden = 8, .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 4, .mlp = 12, .context = 16};
  const ParameterPlaces places(shape);
  const Recipe recipe{.steps = 40, .rate = 0.01, .warmup = 4, .clip = 2.5};
  sluice::Random random(3);
  std::vector<float> weights(places.count), gradient(places.count);
  for (float& weight : weights) weight = static_cast<float>(random.uniform() - 0.5);
  std::vector<double> reference(weights.begin(), weights.end()), mean(places.count), square(places.count);
  AdamW optimiser(places);
  for (std::int64_t step = 0; step < recipe.steps; ++step) {
    double squares = 0;
    for (float& number : gradient) {
      number = static_cast<float>(random.uniform() - 0.3) * (step % 3 == 0 ? 1.0F : 0.01F); // clipped, and not
      squares += static_cast<double>(number) * static_cast<double>(number);
    }
    CHECK(optimiser.step(places, recipe, step, gradient, weights) == doctest::Approx(std::sqrt(squares)));
    const double shrink = std::min(1.0, recipe.clip / std::sqrt(squares));
    const auto count = static_cast<double>(step + 1);
    for (const ParameterTensor& tensor : places.tensors) {
      const bool decays = tensor.rows > 1 && tensor.name != "model.embed_tokens.weight";
      for (std::size_t i = tensor.offset; i < tensor.offset + tensor.count(); ++i) {
        const double g = static_cast<double>(gradient[i]) * shrink;
        mean[i] += (1 - recipe.first_momentum) * (g - mean[i]);
        square[i] += (1 - recipe.second_momentum) * (g * g - square[i]);
        const double unbiased_mean = mean[i] / (1 - std::pow(recipe.first_momentum, count));
        const double unbiased_square = square[i] / (1 - std::pow(recipe.second_momentum, count));
        reference[i] -= rate_at(recipe, step) * (unbiased_mean / (std::sqrt(unbiased_square) + 1e-8) +
                                                 (decays ? recipe.decay * reference[i] : 0));
      }
    }
  }
  double worst = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(weights[i]) - reference[i]));
  CHECK(worst < 1e-5);
}

TEST_CASE("the learning rate rises for the warm-up and ends at its last share") {
  const Recipe recipe{.steps = 1000, .rate = 0.004, .warmup = 50, .last_share = 0.1};
  CHECK(rate_at(recipe, 0) == doctest::Approx(0.004 / 50));
  CHECK(rate_at(recipe, 49) == doctest::Approx(0.004).epsilon(0.01));
  CHECK(rate_at(recipe, 999) == doctest::Approx(0.0004).epsilon(0.01));
  for (std::int64_t step = 50; step < 999; ++step) CHECK(rate_at(recipe, step + 1) < rate_at(recipe, step));
}

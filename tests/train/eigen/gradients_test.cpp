// SPDX-License-Identifier: Apache-2.0
// Every gradient that training uses, compared with differences of the loss.
#include "sluice/core/random.hpp"

#include "../../../examples/train/llama_pass.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using namespace training;

/// Small, with every group of heads larger than one, and windows longer than a block of queries.
constexpr LlamaShape small{
    .vocabulary = 37, .hidden = 24, .layers = 2, .heads = 6, .kv_heads = 2, .head_dim = 4, .mlp = 20, .context = 80};

template <class Scalar>
std::vector<Scalar> random_weights(const ParameterPlaces& places, std::uint64_t seed) {
  sluice::Random random(seed);
  std::vector<Scalar> weights(places.count);
  for (const ParameterTensor& tensor : places.tensors)
    for (std::size_t i = 0; i < tensor.count(); ++i)
      weights[tensor.offset + i] =
          static_cast<Scalar>((tensor.is_vector() ? 1.0 : 0.0) + 0.8 * (random.uniform() - 0.5));
  return weights;
}

std::vector<std::uint16_t> random_window(std::size_t tokens, std::uint64_t seed) {
  sluice::Random random(seed);
  std::vector<std::uint16_t> window(tokens);
  for (std::uint16_t& token : window) token = static_cast<std::uint16_t>(random.below(small.vocabulary));
  return window;
}

double length_of(std::span<const double> numbers) {
  double squares = 0;
  for (const double number : numbers) squares += number * number;
  return std::sqrt(squares);
}

} // namespace

TEST_CASE("the gradient of every tensor agrees with differences of the loss, in each tested direction") {
  LlamaPass<double> pass(small);
  const ParameterPlaces& places = pass.places();
  for (const std::size_t tokens : {std::size_t{2}, std::size_t{9}, std::size_t{small.context + 1}}) {
    const std::vector<std::uint16_t> window = random_window(tokens, tokens);
    std::vector<double> weights = random_weights<double>(places, 5);
    std::vector<double> gradient(places.count);
    pass.loss_and_gradient(weights, window, 1, gradient);
    sluice::Random random(9);
    for (const ParameterTensor& tensor : places.tensors) {
      CAPTURE(tensor.name);
      CAPTURE(tokens);
      const std::span<double> own = std::span(weights).subspan(tensor.offset, tensor.count());
      const auto slope = std::span<const double>(gradient).subspan(tensor.offset, tensor.count());
      const std::vector<double> before(own.begin(), own.end());
      // All numbers of a tensor at once, so that a wrong one cannot hide between tested ones.
      for (int direction = tokens > 9 ? 3 : 0; direction < 4; ++direction) { // a long window takes long at -O0
        std::vector<double> step(tensor.count());
        for (double& number : step) number = random.uniform() - 0.5;
        constexpr double size = 1e-5;
        const auto loss_at = [&](double along) {
          for (std::size_t i = 0; i < own.size(); ++i) own[i] = before[i] + along * step[i];
          return pass.loss(weights, window);
        };
        const double difference = (loss_at(size) - loss_at(-size)) / (2 * size);
        double told = 0;
        for (std::size_t i = 0; i < own.size(); ++i) told += slope[i] * step[i];
        std::copy(before.begin(), before.end(), own.begin());
        CHECK(std::abs(difference - told) <= 1e-6 * (length_of(slope) * length_of(step) + 1e-3));
      }
    }
  }
}

TEST_CASE("a gradient is scaled and added to the earlier one") {
  LlamaPass<double> pass(small);
  const std::vector<double> weights = random_weights<double>(pass.places(), 1);
  const std::vector<std::uint16_t> window = random_window(30, 2);
  std::vector<double> once(pass.places().count), twice(pass.places().count, 1.0);
  const double loss = pass.loss_and_gradient(weights, window, 1, once);
  CHECK(loss == doctest::Approx(pass.loss(weights, window)));
  pass.loss_and_gradient(weights, window, 0.25, twice);
  double worst = 0;
  for (std::size_t i = 0; i < once.size(); ++i) worst = std::max(worst, std::abs(twice[i] - 1 - 0.25 * once[i]));
  CHECK(worst < 1e-12);
}

TEST_CASE("a token's logits do not depend on later tokens") {
  LlamaPass<double> pass(small);
  const std::vector<double> weights = random_weights<double>(pass.places(), 3);
  std::vector<std::uint16_t> tokens = random_window(70, 4);
  const LlamaPass<double>::Grid before = pass.logits(weights, tokens);
  tokens.back() = static_cast<std::uint16_t>((tokens.back() + 1) % small.vocabulary);
  const LlamaPass<double>::Grid& after = pass.logits(weights, tokens);
  CHECK((before.topRows(69) - after.topRows(69)).cwiseAbs().maxCoeff() < 1e-12);
  CHECK((before.row(69) - after.row(69)).cwiseAbs().maxCoeff() > 1e-3);
}

// SPDX-License-Identifier: Apache-2.0
// The Trainer: sluice-train's computation, compiled for this machine's vector instructions.
#include "trainer.hpp"

#include "sluice/core/random.hpp"
#include "sluice/model/checkpoint/element.hpp"

#include "adamw.hpp"
#include "llama_pass.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>

namespace training {

namespace {

/// A normally distributed number (Box and Muller).
double normal(sluice::Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

/// Matrices keep the magnitude of their input. Those that write to the residual stream begin smaller in models with
/// more layers (GPT-2's rule).
Numbers first_weights(const LlamaShape& shape, const ParameterPlaces& places, std::uint64_t seed) {
  sluice::Random random(seed);
  Numbers weights(places.count);
  for (const ParameterTensor& tensor : places.tensors) {
    double deviation = 1 / std::sqrt(static_cast<double>(tensor.columns));
    if (tensor.writes_residual()) deviation /= std::sqrt(2.0 * shape.layers);
    if (tensor.offset == places.embedding) deviation = 0.05;
    for (std::size_t i = 0; i < tensor.count(); ++i)
      weights[tensor.offset + i] = tensor.is_vector() ? 1 : static_cast<float>(normal(random) * deviation);
  }
  return weights;
}

constexpr std::size_t slices_of_a_batch = 2; ///< also the most threads that help

} // namespace

struct Trainer::Slice {
  explicit Slice(const LlamaShape& shape) : pass(shape), gradient(pass.places().count) {}

  LlamaPass<float> pass;
  Numbers gradient;
  double loss = 0;
};

Trainer::Trainer(const LlamaShape& shape, const Recipe& recipe, int threads)
    : shape_(shape),
      recipe_(recipe),
      places_(shape),
      threads_(threads),
      weights_(first_weights(shape, places_, recipe.seed)),
      optimiser_(std::make_unique<AdamW>(places_)) {
  for (std::size_t i = 0; i < slices_of_a_batch; ++i) slices_.push_back(std::make_unique<Slice>(shape));
}

Trainer::~Trainer() = default;

template <class Work>
void Trainer::each_slice(std::size_t count, Work work) {
  const auto run = [&](std::size_t i) {
    work(*slices_[i], count * i / slices_.size(), count * (i + 1) / slices_.size());
  };
  if (threads_ < 2) {
    for (std::size_t i = 0; i < slices_.size(); ++i) run(i);
    return;
  }
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < slices_.size(); ++i) others.emplace_back(run, i);
  run(0);
}

double Trainer::step(std::int64_t at, std::span<const Window> batch) {
  std::size_t tokens = 0;
  for (const Window window : batch) tokens += window.size() - 1;
  const float scale = 1 / static_cast<float>(tokens);
  each_slice(batch.size(), [&](Slice& slice, std::size_t from, std::size_t to) {
    std::fill(slice.gradient.begin(), slice.gradient.end(), 0.0F);
    slice.loss = 0;
    for (std::size_t i = from; i < to; ++i)
      slice.loss += slice.pass.loss_and_gradient(weights_, batch[i], scale, slice.gradient);
  });
  double sum = slices_[0]->loss;
  Numbers& gradient = slices_[0]->gradient;
  for (std::size_t i = 1; i < slices_.size(); ++i) {
    sum += slices_[i]->loss;
    for (std::size_t k = 0; k < gradient.size(); ++k) gradient[k] += slices_[i]->gradient[k];
  }
  optimiser_->step(places_, recipe_, at, gradient, weights_);
  return sum / static_cast<double>(tokens);
}

double Trainer::loss(std::span<const Window> windows) {
  each_slice(windows.size(), [&](Slice& slice, std::size_t from, std::size_t to) {
    slice.loss = 0;
    for (std::size_t i = from; i < to; ++i) slice.loss += slice.pass.loss(weights_, windows[i]);
  });
  double sum = 0;
  for (const auto& slice : slices_) sum += slice->loss;
  return sum;
}

void Trainer::round_to_bf16() {
  for (float& weight : weights_) weight = sluice::from_bf16(sluice::to_bf16(weight));
}

} // namespace training

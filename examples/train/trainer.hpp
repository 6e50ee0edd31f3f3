// SPDX-License-Identifier: Apache-2.0
// Trainer: the weights of a model, trained on batches of windows by some threads.
#pragma once

#include "llama.hpp"
#include "numbers.hpp"
#include "recipe.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace training {

class AdamW;

using Window = std::span<const std::uint16_t>;

/// A batch is cut into two slices, whether one thread computes them or two, and their gradients are added in their
/// order: the weights depend on the seed and not on the threads.
class Trainer {
 public:
  Trainer(const LlamaShape& shape, const Recipe& recipe, int threads);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// One step on `batch`, and how it was: nats a token before it.
  double step(std::int64_t at, std::span<const Window> batch);

  /// Nats of all tokens of the windows but their first ones.
  double loss(std::span<const Window> windows);

  /// Rounds all weights to bf16, as they will be read again.
  void round_to_bf16();

  [[nodiscard]] const ParameterPlaces& places() const { return places_; }
  [[nodiscard]] std::span<const float> weights() const { return weights_; }

 private:
  struct Slice;

  /// Calls work(slice, first window, windows) for each slice of `count` windows, on the threads.
  template <class Work>
  void each_slice(std::size_t count, Work work);

  LlamaShape shape_;
  Recipe recipe_;
  ParameterPlaces places_;
  int threads_;
  Numbers weights_;
  std::unique_ptr<AdamW> optimiser_; ///< no Eigen here: who includes this is compiled for other vectors
  std::vector<std::unique_ptr<Slice>> slices_;
};

} // namespace training

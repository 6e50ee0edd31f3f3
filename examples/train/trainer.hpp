// SPDX-License-Identifier: Apache-2.0
// Trainer: a model's weights, trained on batches of windows by some threads.
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

/// A batch is always split into two slices, for one thread or two, and their gradients are added in order: the weights
/// depend on the seed but not on the number of threads.
class Trainer {
 public:
  Trainer(const LlamaShape& shape, const Recipe& recipe, int threads);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// One step on `batch`; returns its loss before the step, in nats per token.
  double step(std::int64_t at, std::span<const Window> batch);

  /// The sum of the loss over all tokens of the windows except their first ones, in nats.
  double loss(std::span<const Window> windows);

  /// Rounds all weights to bf16, as they will be stored.
  void round_to_bf16();

  [[nodiscard]] const ParameterPlaces& places() const { return places_; }
  [[nodiscard]] std::span<const float> weights() const { return weights_; }

 private:
  struct Slice;

  /// Calls work(slice, first window, windows) on the threads for each slice of `count` windows.
  template <class Work>
  void each_slice(std::size_t count, Work work);

  LlamaShape shape_;
  Recipe recipe_;
  ParameterPlaces places_;
  int threads_;
  Numbers weights_;
  std::unique_ptr<AdamW>
      optimiser_; ///< a pointer, to keep Eigen out: files that include this are compiled for other vector instructions
  std::vector<std::unique_ptr<Slice>> slices_;
};

} // namespace training

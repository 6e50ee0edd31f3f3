// SPDX-License-Identifier: Apache-2.0
// CountingRunner: a ModelRunner that counts the rows that it computes, keeps and restores.
#pragma once

#include "sluice/model/decoder/model_runner.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace sluice::testing {

/// Rows, summed over all layers.
struct CountedRows {
  std::int64_t passed = 0;   ///< fully computed
  std::int64_t stored = 0;   ///< only K and V computed
  std::int64_t restored = 0; ///< restored from hidden states
  std::int64_t kept = 0;     ///< whose hidden states were saved
};

class CountingRunner final : public ForwardingRunner {
 public:
  CountingRunner(std::unique_ptr<ModelRunner> runner, std::shared_ptr<CountedRows> counts)
      : runner_(std::move(runner)), counts_(std::move(counts)) {
    forward_to(*runner_);
  }

  void restore(std::span<const HiddenRows> rows) override {
    for (const HiddenRows& some : rows) counts_->restored += some.rows;
    ForwardingRunner::restore(rows);
  }
  void launch_layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                    int stored_rows, std::span<const HiddenRows> kept) override {
    counts_->passed += rows;
    counts_->stored += stored_rows;
    for (const HiddenRows& some : kept) counts_->kept += some.rows;
    ForwardingRunner::launch_layer(layer, weights, sequences, rows, stored_rows, kept);
  }

 private:
  std::unique_ptr<ModelRunner> runner_;
  std::shared_ptr<CountedRows> counts_;
};

} // namespace sluice::testing

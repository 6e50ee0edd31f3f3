// SPDX-License-Identifier: Apache-2.0
// DecoderTimer: how long one iteration's calls to a decoder take on this machine.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/stopwatch.hpp"
#include "sluice/model/decoder/batch_timer.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/sampler.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace sluice {

/// Runs batches through a decoder under the conditions of an engine's iterations: all layers' weights lie one after
/// another, and K and V of every layer elsewhere, so that caches hold what they hold in serving. (Rejected: timing one
/// layer repeatedly. The weights of a small model then never leave the cache.)
///
/// For a large model, only as many layers are held and timed as exceed any cache, and they stand for all.
class DecoderTimer final : public BatchTimer {
 public:
  /// `most_weights`: weights held for timing, beyond the first layer's; `most_kv`: K and V. Both outlive this.
  DecoderTimer(const ModelWeights& weights, Decoder& decoder, Tokens block_tokens, Bytes most_weights = Bytes{1 << 28},
               Bytes most_kv = Bytes{1 << 28})
      : weights_(weights), decoder_(decoder), block_tokens_(block_tokens) {
    const std::int64_t layer_bytes = weights.layout.bytes.count();
    const std::int64_t held =
        std::clamp<std::int64_t>(most_weights.count() / layer_bytes, 1, weights.config.shape.layers);
    // Room for the alignment, which a vector of bytes does not guarantee.
    memory_.resize(static_cast<std::size_t>(held * layer_bytes + weight_alignment));
    std::byte* const first = aligned(memory_.data(), weight_alignment);
    for (int layer = 0; layer < static_cast<int>(held); ++layer) {
      std::byte* const image = first + layer * layer_bytes;
      for (std::size_t i = 0; i < weights.layout.places.size(); ++i)
        std::memcpy(image + weights.layout.places[i].offset, weights.layers[static_cast<std::size_t>(layer)][i],
                    static_cast<std::size_t>(weights.layout.places[i].bytes()));
      weights.forget(layer);
      layers_.emplace_back(weights.layout, image, nullptr, layer_bytes);
    }
    block_floats_ = kv_block_floats(weights.config.shape, block_tokens);
    blocks_ = std::max<std::int64_t>(1, most_kv.count() / (4 * block_floats_));
    kv_.resize(static_cast<std::size_t>(blocks_ * block_floats_) + weight_alignment / sizeof(float));
  }

  [[nodiscard]] bool fits(const TimedBatch& batch) const override {
    return batch.longest_sequence() <= weights_.config.max_positions && blocks_of(batch) <= blocks_;
  }

  [[nodiscard]] BatchTimes time(const TimedBatch& batch) override {
    SLUICE_ASSERT(batch.rows() > 0 && fits(batch), "a batch with rows, that fits");
    const auto rows = static_cast<std::size_t>(batch.rows());
    tokens_.assign(rows, 0);
    positions_.resize(rows);
    last_rows_.clear();
    for (int i = 0; i < batch.chunk; ++i) positions_[static_cast<std::size_t>(i)] = batch.past + i;
    if (batch.chunk > 0) last_rows_.push_back(batch.chunk - 1);
    for (int i = batch.chunk; i < batch.rows(); ++i) {
      positions_[static_cast<std::size_t>(i)] = batch.context_of(i - batch.chunk);
      last_rows_.push_back(i);
    }
    BatchTimes times;
    Stopwatch clock;
    decoder_.begin(tokens_, positions_);
    times.begin = clock.elapsed();
    for (const LayerWeights& layer : layers_) {
      point_at_blocks(batch);
      clock = {};
      decoder_.layer(layer, sequences_, batch.rows(), 0);
      times.layer += clock.elapsed();
    }
    times.layer = times.layer / static_cast<double>(layers_.size());
    const auto vocabulary = static_cast<std::size_t>(weights_.config.shape.vocabulary);
    logits_.resize(last_rows_.size() * vocabulary);
    clock = {};
    decoder_.logits(last_rows_, logits_);
    times.head = clock.elapsed();
    clock = {};
    for (std::size_t i = 0; i < last_rows_.size(); ++i)
      chosen_ += greedy_token(std::span<const float>{logits_}.subspan(i * vocabulary, vocabulary));
    times.sampler = clock.elapsed();
    return times;
  }

  [[nodiscard]] int layers() const { return static_cast<int>(layers_.size()); }
  /// The sum of all sampled tokens, so that no compiler drops the sampling.
  [[nodiscard]] std::int64_t chosen() const { return chosen_; }

 private:
  [[nodiscard]] std::int64_t blocks_for_tokens(int tokens) const {
    return blocks_for(Tokens{tokens}, block_tokens_).count();
  }
  /// Blocks of one layer: its sequences share none.
  [[nodiscard]] std::int64_t blocks_of(const TimedBatch& batch) const {
    if (!batch.attends) return 0;
    std::int64_t blocks = batch.chunk > 0 ? blocks_for_tokens(batch.past + batch.chunk) : 0;
    for (int i = 0; i < batch.decodes; ++i) blocks += blocks_for_tokens(batch.context_of(i) + 1);
    return blocks;
  }
  /// Assigns the next blocks, in turn.
  void point_at_blocks(const TimedBatch& batch) {
    sequences_.clear();
    pointers_.clear();
    if (!batch.attends) return;
    const std::int64_t count = blocks_of(batch);
    for (std::int64_t i = 0; i < count; ++i, next_ = (next_ + 1) % blocks_)
      pointers_.push_back(reinterpret_cast<std::byte*>(aligned(kv_.data(), weight_alignment) + next_ * block_floats_));
    std::size_t at = 0;
    if (batch.chunk > 0) {
      sequences_.push_back({0, batch.chunk, batch.past, pointers_.data(), batch.past});
      at += static_cast<std::size_t>(blocks_for_tokens(batch.past + batch.chunk));
    }
    for (int i = 0; i < batch.decodes; ++i) {
      const int context = batch.context_of(i);
      sequences_.push_back({batch.chunk + i, 1, context, pointers_.data() + at, context});
      at += static_cast<std::size_t>(blocks_for_tokens(context + 1));
    }
  }

  const ModelWeights& weights_;
  Decoder& decoder_;
  Tokens block_tokens_;
  std::vector<std::byte> memory_;
  std::vector<LayerWeights> layers_;
  std::int64_t block_floats_ = 0, blocks_ = 0, next_ = 0;
  std::vector<float> kv_;
  std::vector<std::int32_t> tokens_, positions_;
  std::vector<int> last_rows_;
  std::vector<std::byte*> pointers_;
  std::vector<SequenceRows> sequences_;
  std::vector<float> logits_;
  std::int64_t chosen_ = 0;
};

} // namespace sluice

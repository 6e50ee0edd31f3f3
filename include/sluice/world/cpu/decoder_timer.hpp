// SPDX-License-Identifier: Apache-2.0
// DecoderTimer: how long one iteration's calls to a decoder take on this machine.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/stopwatch.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/sampler.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/cpu/cpu_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// Runs batches through a decoder under the conditions of an engine's iterations: all layers' weights lie one after
/// another, in huge pages as a machine's, and K and V of every layer elsewhere, so that caches hold what they hold in
/// serving. (Rejected: timing one layer repeatedly. The weights of a small model then never leave the cache.)
///
/// Steps that only decode follow each other, and the next one reads what the last one left in the caches. So such a
/// batch is computed twice, and the second time counts. (Once, after batches of other sizes, a decode of a small model
/// took 1.7 times as long as in a run.)
///
/// For a large model, only as many layers are held and timed as exceed any cache, one of each kind at least. They stand
/// for all: a layer's time is the mean over the model's layers, each as long as those of its kind. `Clock` is as
/// Stopwatch.
template <class Clock = Stopwatch>
class BasicDecoderTimer final : public BatchTimer {
 public:
  /// Memory for the timed layers' weights: at most `most` bytes, but one layer's of each kind at least. Errors: out of
  /// memory.
  [[nodiscard]] static Expected<VirtualMemory> reserve(const ModelWeights& weights, Bytes most = Bytes{1 << 28}) {
    const Bytes layer = weights.layout.bytes;
    const auto kinds = static_cast<std::int64_t>(layers_by_kind(weights.config).size());
    const std::int64_t held =
        std::clamp<std::int64_t>(most.count() / layer.count(), kinds, weights.config.shape.layers);
    Expected<VirtualMemory> memory = VirtualMemory::reserve(layer * held);
    if (memory) memory->prefer_huge_pages();
    return memory;
  }
  /// `memory`: from `reserve`; `most_kv`: K and V. Weights and decoder outlive this.
  BasicDecoderTimer(const ModelWeights& weights, Decoder& decoder, Tokens block_tokens, VirtualMemory memory,
                    Bytes most_kv = Bytes{1 << 28})
      : weights_(weights),
        decoder_(decoder),
        block_tokens_(block_tokens),
        memory_(std::move(memory)),
        kinds_(layers_by_kind(weights.config)) {
    const std::int64_t layer_bytes = weights.layout.bytes.count();
    choose_layers(static_cast<std::size_t>(memory_.size().count() / layer_bytes));
    std::byte* image = memory_.data(); // aligned to a page, and so to a cache line
    for (const int layer : held_) {
      const LayerLayout& layout = weights.layout_at(layer);
      for (std::size_t i = 0; i < layout.places.size(); ++i)
        std::memcpy(image + layout.places[i].offset, weights.layers[static_cast<std::size_t>(layer)][i],
                    static_cast<std::size_t>(layout.places[i].bytes()));
      weights.forget(layer);
      layers_.emplace_back(layout, image, nullptr, layer_bytes);
      image += layer_bytes;
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
    const auto rows = static_cast<std::size_t>(batch.all_rows());
    tokens_.clear();
    for (std::int64_t row = 0; row < batch.all_rows(); ++row)
      tokens_.push_back(measured_token(row, weights_.config.shape.vocabulary));
    positions_.resize(rows);
    last_rows_.clear();
    for (int i = 0; i < batch.chunk; ++i) positions_[static_cast<std::size_t>(i)] = batch.past + i;
    if (batch.chunk > 0) last_rows_.push_back(batch.chunk - 1);
    for (int i = batch.chunk; i < batch.rows(); ++i) {
      positions_[static_cast<std::size_t>(i)] = batch.context_of(i - batch.chunk);
      last_rows_.push_back(i);
    }
    std::iota(positions_.end() - batch.stored, positions_.end(), 0);
    if (batch.chunk == 0) {
      const std::int64_t first_block = next_;
      (void)pass(batch);
      next_ = first_block;
    }
    return pass(batch);
  }

  [[nodiscard]] int layers() const { return static_cast<int>(layers_.size()); }
  /// The sum of all sampled tokens, so that no compiler drops the sampling.
  [[nodiscard]] std::int64_t chosen() const { return chosen_; }

 private:
  BatchTimes pass(const TimedBatch& batch) {
    BatchTimes times;
    Clock clock;
    decoder_.begin(tokens_, positions_);
    times.begin = clock.elapsed();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      point_at_blocks(batch);
      clock = {};
      decoder_.layer(held_[i], layers_[i], sequences_, batch.rows(), batch.stored);
      times.layer += clock.elapsed() * shares_[i];
    }
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
  [[nodiscard]] std::int64_t blocks_for_tokens(int tokens) const {
    return blocks_for(Tokens{tokens}, block_tokens_).count();
  }
  /// Blocks of one layer: its sequences share none.
  [[nodiscard]] std::int64_t blocks_of(const TimedBatch& batch) const {
    std::int64_t blocks = batch.stored > 0 ? blocks_for_tokens(batch.stored) : 0;
    if (!batch.attends) return blocks;
    if (batch.chunk > 0) blocks += blocks_for_tokens(batch.past + batch.chunk);
    for (int i = 0; i < batch.decodes; ++i) blocks += blocks_for_tokens(batch.context_of(i) + 1);
    return blocks;
  }
  /// The first layer of each kind, and the model's first others as far as there is room for `most`.
  void choose_layers(std::size_t most) {
    const auto first_of_kind = [&](int layer) {
      return std::any_of(kinds_.begin(), kinds_.end(),
                         [&](const LayersOfKind& kind) { return kind.layers.front() == layer; });
    };
    std::size_t others = most - kinds_.size();
    for (int layer = 0; layer < weights_.config.shape.layers; ++layer)
      if (first_of_kind(layer) || (others > 0 && others-- > 0)) held_.push_back(layer);
    const auto layers = static_cast<double>(weights_.config.shape.layers);
    for (const int layer : held_) {
      const LayerKind kind = weights_.config.kind(layer);
      const auto held =
          std::count_if(held_.begin(), held_.end(), [&](int other) { return weights_.config.kind(other) == kind; });
      const auto of_kind =
          std::find_if(kinds_.begin(), kinds_.end(), [&](const LayersOfKind& one) { return one.kind == kind; });
      shares_.push_back(static_cast<double>(of_kind->layers.size()) / (static_cast<double>(held) * layers));
    }
  }
  /// Assigns the next blocks, in turn.
  void point_at_blocks(const TimedBatch& batch) {
    sequences_.clear();
    pointers_.clear();
    const std::int64_t count = blocks_of(batch);
    for (std::int64_t i = 0; i < count; ++i, next_ = (next_ + 1) % blocks_)
      pointers_.push_back(reinterpret_cast<std::byte*>(aligned(kv_.data(), weight_alignment) + next_ * block_floats_));
    if (batch.stored > 0) sequences_.push_back({batch.rows(), batch.stored, 0, pointers_.data(), 0});
    if (!batch.attends) return;
    std::size_t at = batch.stored > 0 ? static_cast<std::size_t>(blocks_for_tokens(batch.stored)) : 0;
    if (batch.chunk > 0) {
      sequences_.push_back({0, batch.chunk, batch.past, pointers_.data() + at, batch.past});
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
  VirtualMemory memory_;
  std::vector<LayersOfKind> kinds_;
  std::vector<int> held_; ///< layers, in order
  std::vector<LayerWeights> layers_;
  std::vector<double> shares_; ///< of each layer that is held, in the mean over the model's layers
  std::int64_t block_floats_ = 0, blocks_ = 0, next_ = 0;
  std::vector<float> kv_;
  std::vector<std::int32_t> tokens_, positions_;
  std::vector<int> last_rows_;
  std::vector<std::byte*> pointers_;
  std::vector<SequenceRows> sequences_;
  std::vector<float> logits_;
  std::int64_t chosen_ = 0;
};

using DecoderTimer = BasicDecoderTimer<>;

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of KernelRunner: a small model on an emulated device, sequences with K and V in their own blocks,
// and passes of any of their rows.
#pragma once

#include "sluice/core/random.hpp"

#include "emulate/kernel_queue.hpp"
#include "kernels/decoder/kernel_runner.hpp"
#include "support/small_models.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif

namespace sluice::kernels {

template <ElementType element>
using SmallRunner = KernelRunner<emulate::KernelQueue, KernelRunnerConfig{element, testing::small_head_dim}>;

// Each is compiled once, in runner_<element>_test.cpp.
extern template class KernelRunner<emulate::KernelQueue, KernelRunnerConfig{ElementType::f32, testing::small_head_dim}>;
extern template class KernelRunner<emulate::KernelQueue, KernelRunnerConfig{ElementType::f16, testing::small_head_dim}>;
extern template class KernelRunner<emulate::KernelQueue,
                                   KernelRunnerConfig{ElementType::bf16, testing::small_head_dim}>;

namespace test {

inline constexpr ElementType f32 = ElementType::f32;

/// There every CUDA thread is a thread, which takes longer, so tests do less.
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
inline constexpr bool few = true;
#else
inline constexpr bool few = false;
#endif
/// Under AddressSanitizer a row takes about ten times as long.
#if defined(SLUICE_SANITIZED)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = few;
#endif

/// On a GPU the library is cuBLASLt, and may multiply few rows as it multiplies many.
#if defined(SLUICE_ON_CARD)
inline constexpr bool on_card = true;
#else
inline constexpr bool on_card = false;
#endif

using testing::SmallModel;

inline constexpr int block_tokens = 16;

inline std::vector<std::int32_t> random_tokens(Random& random, int count, int vocabulary) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary))));
  return tokens;
}

/// One sequence's K and V, in its own scattered blocks.
struct SequenceKv {
  SequenceKv(const DecoderConfig& config, int tokens, Random& random) {
    const std::int64_t numbers = kv_block_floats(config.shape, Tokens{block_tokens});
    const auto bytes = static_cast<std::size_t>(numbers * config.shape.kv_element_bytes);
    layers.resize(static_cast<std::size_t>(config.shape.layers));
    for (auto& layer : layers)
      for (int t = 0; t < tokens; t += block_tokens) layer.push_back(add(bytes));
    for (auto& layer : layers) { // so that blocks are not used in the order of their allocation
      for (std::byte*& block : layer) {
        auto& other = layers[random.below(layers.size())];
        if (!other.empty()) std::swap(block, other[random.below(other.size())]);
      }
    }
  }
  std::byte* add(std::size_t bytes) {
    memory.emplace_back(bytes);
    return memory.back().data();
  }

  /// The place and the length of a token's K (`head` below the model's KV heads) or V (from there on).
  [[nodiscard]] std::span<std::byte> head(const DecoderConfig& config, std::size_t layer, int token, int head) const {
    const std::int64_t bytes = std::int64_t{config.shape.head_dim} * config.shape.kv_element_bytes;
    std::byte* const block = layers[layer][static_cast<std::size_t>(token / block_tokens)];
    return {block + (std::int64_t{head} * block_tokens + token % block_tokens) * bytes,
            static_cast<std::size_t>(bytes)};
  }
  /// K and V of the first `tokens` tokens.
  [[nodiscard]] std::vector<std::byte> stored(const DecoderConfig& config, int tokens) const {
    std::vector<std::byte> all;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      for (int token = 0; token < tokens; ++token) {
        for (int h = 0; h < 2 * config.shape.kv_heads; ++h) {
          const auto one = head(config, layer, token, h);
          all.insert(all.end(), one.begin(), one.end());
        }
      }
    }
    return all;
  }

  std::vector<emulate::Memory> memory;
  std::vector<std::vector<std::byte*>> layers;
};

/// Rows of one sequence in an iteration: `count` tokens from `first` on.
struct Part {
  const std::vector<std::int32_t>* tokens = nullptr;
  SequenceKv* kv = nullptr; ///< null: rows of no sequence
  int first = 0;
  int count = 0;
};

/// A layer's weights as a machine has them: the bytes before a cut in one place, the others in another.
struct CutLayer {
  CutLayer(const ModelWeights& model, int layer, double share) {
    const std::int64_t cut = model.layout.cut(share);
    const auto bytes = static_cast<std::size_t>(model.layout.bytes.count());
    const std::byte* const image =
        model.layers[static_cast<std::size_t>(layer)][0] - model.layout.places[0].offset; // of `random_weights`
    const std::size_t before = static_cast<std::size_t>(cut), behind = bytes - before;
    head = emulate::Memory{std::max<std::size_t>(1, before)}; // an address, even for no bytes
    tail = emulate::Memory{std::max<std::size_t>(1, behind)};
    std::memcpy(head.data(), image, before);
    std::memcpy(tail.data(), image + cut, behind);
    weights = LayerWeights{model.layout, head.data(), tail.data(), cut};
  }
  emulate::Memory head, tail;
  LayerWeights weights;
};

/// The logits of some rows, and their tokens.
struct Outcome {
  std::vector<std::vector<std::uint32_t>> logits; ///< their bits
  std::vector<std::int32_t> tokens;
};

inline std::vector<float> numbers(const std::vector<std::uint32_t>& bits) {
  std::vector<float> floats;
  for (const std::uint32_t one : bits) floats.push_back(std::bit_cast<float>(one));
  return floats;
}

/// The setup of a case's runner.
struct RunnerWay {
  std::optional<QueueWait> leaves_out = {};
  int split_rows = 64;
  Products products = Products::invariant;
  int graph_rows = 0;
  int least_segment = 512;
  int sms = 132;
  std::int64_t kept_blocks = 1 << 16;
};

template <ElementType element>
class RunnerCase {
 public:
  static constexpr int most_rows = 1200, most_samples = 128;

  RunnerCase(ModelWeights weights, std::uint64_t seed, const RunnerWay& way = {})
      : model_(std::move(weights)), device_(2, seed) {
    const KernelRunnerLimits limits{.block_tokens = Tokens{block_tokens},
                                    .table_blocks = 512,
                                    .kept_blocks = way.kept_blocks,
                                    .split_rows = way.split_rows,
                                    .products = way.products,
                                    .library_room = Bytes{4096},
                                    .least_segment = way.least_segment,
                                    .sms = way.sms,
                                    .graph_rows = way.graph_rows};
    using Runner = SmallRunner<element>;
    arena_ = emulate::Memory{
        static_cast<std::size_t>(Runner::workspace(model_.config, limits, most_rows, most_samples).count())};
    if (way.leaves_out) queue_.leave_out(*way.leaves_out);
    runner_ = std::make_unique<Runner>(queue_, model_, limits, std::span{arena_.data(), arena_.size()});
    for (int layer = 0; layer < model_.config.shape.layers; ++layer) whole_.emplace_back(model_, layer, 0.0);
  }
  RunnerCase(SmallModel model, std::uint64_t seed, const RunnerWay& way = {})
      : RunnerCase(testing::small_weights(model, element), seed, way) {}
  /// Pending device work touches memory of the case.
  RunnerCase(const RunnerCase&) = delete;
  RunnerCase& operator=(const RunnerCase&) = delete;
  ~RunnerCase() {
    device_.finish();
    CHECK_MESSAGE(device_.report().ok(), device_.report().text());
  }

  [[nodiscard]] const DecoderConfig& config() const { return model_.config; }
  [[nodiscard]] const LayerWeights& whole(int layer) const { return whole_[static_cast<std::size_t>(layer)].weights; }
  [[nodiscard]] CutLayer copied(int layer, double share) const { return {model_, layer, share}; }
  [[nodiscard]] ModelRunner& runner() { return *runner_; }
  [[nodiscard]] emulate::Device& device() { return device_; }
  [[nodiscard]] const emulate::KernelQueue& queue() const { return queue_; }
  [[nodiscard]] GraphCounts graphs() const { return runner_->graphs().value(); }

  /// Launches all layers of the parts' rows, in that order. `weights_of(layer)` is a layer's weights.
  template <class WeightsOf>
  void launch(std::span<const Part> parts, const WeightsOf& weights_of) {
    std::vector<std::int32_t> tokens, positions;
    for (const Part& part : parts) {
      for (int i = 0; i < part.count; ++i) {
        tokens.push_back((*part.tokens)[static_cast<std::size_t>(part.first + i)]);
        positions.push_back(part.first + i);
      }
    }
    runner_->begin(tokens, positions);
    for (int layer = 0; layer < config().shape.layers; ++layer) {
      std::vector<SequenceRows> rows;
      int row = 0;
      for (const Part& part : parts) {
        if (part.kv != nullptr)
          rows.push_back({row, part.count, part.first, part.kv->layers[static_cast<std::size_t>(layer)].data(), 0});
        row += part.count;
      }
      runner_->launch_layer(layer, weights_of(layer), rows, row, 0, {});
    }
  }
  void launch(std::span<const Part> parts) {
    launch(parts, [&](int layer) { return whole(layer); });
  }
  /// The same, with each layer cut at a random place.
  void launch(std::span<const Part> parts, Random& random) {
    launch(parts, [&](int layer) {
      cut_.emplace_back(model_, layer, random.below(4) == 0 ? 1.0 : random.uniform());
      return cut_.back().weights;
    });
  }
  /// Samples some rows greedily and waits.
  Outcome sample(std::span<const int> rows) {
    std::vector<SampleRow> samples;
    for (const int row : rows) samples.push_back({row, {}, 0, 0});
    return sample(samples);
  }
  Outcome sample(std::span<const SampleRow> samples) {
    runner_->launch_samples(samples);
    Outcome outcome;
    const auto tokens = runner_->tokens();
    outcome.tokens.assign(tokens.begin(), tokens.end());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      outcome.logits.emplace_back();
      for (const float logit : runner_->logits(i)) outcome.logits.back().push_back(std::bit_cast<std::uint32_t>(logit));
    }
    cut_.clear(); // all reads of them have ended
    return outcome;
  }

  /// A single sequence, in one piece: the logits after each token, and K and V.
  struct Alone {
    std::vector<std::vector<std::uint32_t>> logits;
    std::vector<std::byte> stored;
    SequenceKv kv;
  };
  Alone alone(const std::vector<std::int32_t>& tokens, Random& random) {
    const int count = static_cast<int>(tokens.size());
    SequenceKv kv{config(), count, random};
    const Part part{&tokens, &kv, 0, count};
    launch({&part, 1});
    std::vector<int> rows;
    for (int row = 0; row < count; ++row) rows.push_back(row);
    Outcome outcome = sample(rows);
    std::vector<std::byte> stored = kv.stored(config(), count);
    return {std::move(outcome.logits), std::move(stored), std::move(kv)};
  }

 private:
  ModelWeights model_;
  emulate::Memory arena_;
  std::vector<CutLayer> whole_, cut_;
  emulate::Device device_;
  emulate::KernelQueue queue_{device_, 1};
  std::unique_ptr<ModelRunner> runner_;
};

} // namespace test
} // namespace sluice::kernels

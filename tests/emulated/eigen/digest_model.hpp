// SPDX-License-Identifier: Apache-2.0
// DigestModel, DigestRunner: a model of integers whose tokens change if one byte of KV or weights does.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/machine/kv_store.hpp"

#include "emulated/eigen/gpu.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sluice::testing {

/// A row's state is a 64-bit digest of everything that its token depends on. There are no floating-point numbers, so
/// every machine computes the same tokens.
struct DigestModel {
  using Digest = std::uint64_t;
  static constexpr std::int64_t tensor_rows = 12, tensor_columns = 16; ///< of f32, in each layer

  KvBlockShape block;

  /// Weights that differ from layer to layer: one tensor each.
  [[nodiscard]] static ModelWeights weights(int layers) {
    ModelWeights weights;
    weights.config.shape.layers = layers;
    weights.config.shape.hidden = weights.config.shape.head_dim = 16;
    weights.config.shape.heads = weights.config.shape.kv_heads = 1;
    weights.layout.add(LayerTensor::query, tensor_rows, tensor_columns, ElementType::f32);
    const auto bytes = static_cast<std::size_t>(weights.layout.bytes.count());
    auto memory = std::make_shared<std::vector<std::byte>>(bytes * static_cast<std::size_t>(layers));
    for (std::size_t i = 0; i < memory->size(); ++i)
      (*memory)[i] = static_cast<std::byte>((i % bytes * 31 + i / bytes * 17 + 1) % 251);
    for (int layer = 0; layer < layers; ++layer)
      weights.layers.push_back({memory->data() + static_cast<std::size_t>(layer) * bytes});
    weights.owner = std::move(memory);
    return weights;
  }

  [[nodiscard]] static Digest digest(Digest start, const void* from, std::size_t bytes) { // FNV-1a
    const auto* const at = static_cast<const unsigned char*>(from);
    for (std::size_t i = 0; i < bytes; ++i) start = (start ^ at[i]) * 0x100000001b3U;
    return start;
  }
  [[nodiscard]] static Digest begin(std::int32_t token, std::int32_t position) {
    return digest(digest(0xcbf29ce484222325U, &token, sizeof token), &position, sizeof position);
  }
  [[nodiscard]] static std::int32_t token(Digest row) { return static_cast<std::int32_t>(row >> 33U); }

  /// Writes each row's KV, and digests into each row all KV of its sequence up to it, and the weights.
  void layer(const LayerWeights& weights, std::span<const SequenceRows> sequences, std::vector<Digest>& rows) const {
    Digest tensor = 0;
    for (std::int64_t row = 0; row < weights.query.rows; ++row)
      tensor = digest(tensor, weights.query.row(row), static_cast<std::size_t>(weights.query.row_bytes()));
    const auto token_bytes = static_cast<std::size_t>(block.token_bytes);
    for (const SequenceRows& sequence : sequences) {
      const auto kv = [&](std::int64_t position, std::int64_t run) {
        return sequence.blocks[position / block.tokens] + run * block.run_bytes() +
               position % block.tokens * block.token_bytes;
      };
      for (std::int64_t i = 0; i < sequence.rows; ++i) {
        const std::int64_t position = sequence.position + i;
        SLUICE_ASSERT(position >= sequence.stored_from, "a scripted request never recomputes KV");
        Digest& row = rows[static_cast<std::size_t>(sequence.first_row + i)];
        for (std::int64_t run = 0; run < block.runs; ++run)
          for (std::size_t byte = 0; byte < token_bytes; ++byte)
            kv(position, run)[byte] = static_cast<std::byte>(row >> (8 * ((byte + static_cast<std::size_t>(run)) % 8)));
        row = digest(row, &tensor, sizeof tensor);
        for (std::int64_t earlier = 0; earlier <= position; ++earlier)
          for (std::int64_t run = 0; run < block.runs; ++run) row = digest(row, kv(earlier, run), token_bytes);
      }
    }
  }

  /// The reference: `tokens` and `outputs` generated tokens. Each output is computed from all tokens before it, without
  /// keeping anything in between: no machine, no device, no cache.
  [[nodiscard]] std::vector<std::int32_t> generate(const ModelWeights& weights, std::vector<std::int32_t> tokens,
                                                   std::int64_t outputs) const {
    for (; outputs > 0; --outputs) {
      const auto count = static_cast<std::int64_t>(tokens.size());
      std::vector<Digest> rows;
      for (std::int32_t position = 0; position < count; ++position)
        rows.push_back(begin(tokens[static_cast<std::size_t>(position)], position));
      for (const std::vector<const std::byte*>& image : weights.layers) {
        const auto blocks = static_cast<std::size_t>((count + block.tokens - 1) / block.tokens);
        std::vector<std::vector<std::byte>> kv(blocks,
                                               std::vector<std::byte>(static_cast<std::size_t>(block.bytes().count())));
        std::vector<std::byte*> addresses;
        for (std::vector<std::byte>& one : kv) addresses.push_back(one.data());
        const SequenceRows sequence{0, static_cast<int>(count), 0, addresses.data(), 0};
        layer(LayerWeights{weights.layout, image[0], nullptr, weights.layout.bytes.count()}, {&sequence, 1}, rows);
      }
      tokens.push_back(token(rows.back()));
    }
    return tokens;
  }
};

/// A DigestModel in which every pass is an operation of an emulated device's compute stream.
class DigestRunner final : public ModelRunner {
 public:
  DigestRunner(DigestModel model, DecoderConfig config, std::shared_ptr<EmulatedGpu> gpu)
      : model_(model), config_(std::move(config)), gpu_(std::move(gpu)) {}

  [[nodiscard]] Bytes workspace(std::int64_t /*rows*/, std::int64_t /*samples*/) const override { return Bytes{256}; }
  void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) override {
    enqueue([this, tokens = std::vector(tokens.begin(), tokens.end()),
             positions = std::vector(positions.begin(), positions.end())] {
      rows_.clear();
      for (std::size_t i = 0; i < tokens.size(); ++i) rows_.push_back(DigestModel::begin(tokens[i], positions[i]));
    });
  }
  void restore(std::span<const HiddenRows> /*rows*/) override { SLUICE_ASSERT(false, "no script keeps hidden states"); }
  void launch_layer(int /*layer*/, const LayerWeights& weights, std::span<const SequenceRows> sequences, int /*rows*/,
                    int /*stored_rows*/, std::span<const HiddenRows> /*kept*/) override {
    std::vector<std::vector<std::byte*>> blocks;
    for (const SequenceRows& one : sequences) {
      const std::int64_t tokens = one.position + one.rows;
      blocks.emplace_back(one.blocks, one.blocks + (tokens + model_.block.tokens - 1) / model_.block.tokens);
    }
    enqueue([this, weights, sequences = std::vector(sequences.begin(), sequences.end()),
             blocks = std::move(blocks)]() mutable {
      for (std::size_t i = 0; i < sequences.size(); ++i) sequences[i].blocks = blocks[i].data();
      model_.layer(weights, sequences, rows_);
    });
  }
  void launch_samples(std::span<const SampleRow> rows) override {
    enqueue([this, rows = std::vector(rows.begin(), rows.end())] {
      tokens_.clear();
      for (const SampleRow& one : rows) tokens_.push_back(DigestModel::token(rows_[static_cast<std::size_t>(one.row)]));
    });
    samples_ = gpu_->record(StreamId::compute);
  }
  [[nodiscard]] std::span<const std::int32_t> tokens() override {
    gpu_->synchronize(samples_);
    return tokens_;
  }
  [[nodiscard]] std::span<const float> logits(std::size_t /*sample*/) override { return {}; }
  [[nodiscard]] const DecoderConfig& config() const override { return config_; }

 private:
  template <class Work>
  void enqueue(Work work) {
    gpu_->device().launch(EmulatedGpu::number(StreamId::compute), std::move(work));
  }

  DigestModel model_;
  DecoderConfig config_;
  std::shared_ptr<EmulatedGpu> gpu_;
  std::vector<DigestModel::Digest> rows_; ///< of the iteration
  std::vector<std::int32_t> tokens_;
  Ticket samples_;
};

} // namespace sluice::testing

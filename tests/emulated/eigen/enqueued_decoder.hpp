// SPDX-License-Identifier: Apache-2.0
// EnqueuedDecoder: a host decoder that computes on a stream of an emulated device.
#pragma once

#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/decoder_runner.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/sampler.hpp"

#include "emulated/eigen/gpu.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sluice::testing {

/// The CPU decoder; every pass is an operation of the compute stream, because an emulated device's memory is host
/// memory. It tests a machine's ordering with logits that equal the CPU's bit for bit, a hundred times faster than
/// kernels.
class EnqueuedDecoder final : public ModelRunner {
 public:
  EnqueuedDecoder(std::unique_ptr<Decoder> decoder, std::shared_ptr<EmulatedGpu> gpu)
      : decoder_(std::move(decoder)), gpu_(std::move(gpu)) {}

  [[nodiscard]] Bytes workspace(std::int64_t rows, std::int64_t samples) const override {
    return DecoderRunner::workspace(*decoder_, rows, samples);
  }
  void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) override {
    enqueue([this, tokens = std::vector(tokens.begin(), tokens.end()),
             positions = std::vector(positions.begin(), positions.end())] { decoder_->begin(tokens, positions); });
  }
  void restore(std::span<const HiddenRows> rows) override {
    enqueue([this, rows = std::vector(rows.begin(), rows.end())] { DecoderRunner::restore(*decoder_, rows); });
  }
  void launch_layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                    int stored_rows, std::span<const HiddenRows> kept) override {
    struct Pass {
      LayerWeights weights;
      std::vector<SequenceRows> sequences;
      std::vector<std::vector<std::byte*>> blocks;
      std::vector<HiddenRows> kept;
    };
    auto pass = std::make_shared<Pass>();
    pass->weights = weights;
    const std::int64_t block_tokens = block_tokens_;
    for (const SequenceRows& sequence : sequences) {
      const std::int64_t blocks = (sequence.position + sequence.rows + block_tokens - 1) / block_tokens;
      pass->blocks.emplace_back(sequence.blocks, sequence.blocks + blocks);
      pass->sequences.push_back(sequence);
    }
    for (std::size_t i = 0; i < pass->sequences.size(); ++i) pass->sequences[i].blocks = pass->blocks[i].data();
    pass->kept.assign(kept.begin(), kept.end());
    enqueue([this, pass, layer, rows, stored_rows] {
      DecoderRunner::keep(*decoder_, pass->kept);
      decoder_->layer(layer, pass->weights, pass->sequences, rows, stored_rows);
    });
  }
  void launch_samples(std::span<const SampleRow> rows) override {
    chosen_.assign(rows.size(), 0);
    enqueue([this, rows = std::vector(rows.begin(), rows.end())] {
      std::vector<int> numbers;
      for (const SampleRow& row : rows) numbers.push_back(row.row);
      logits_.resize(rows.size() * vocabulary());
      decoder_->logits(numbers, logits_);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::span<const float> one = std::span<const float>{logits_}.subspan(i * vocabulary(), vocabulary());
        const bool finite = std::all_of(one.begin(), one.end(), [](float logit) { return std::isfinite(logit); });
        chosen_[i] = finite ? sample(one, rows[i].sampling, rows[i].sequence, rows[i].position) : -1;
      }
    });
    samples_ = gpu_->record(StreamId::compute);
  }
  [[nodiscard]] std::span<const std::int32_t> tokens() override {
    gpu_->synchronize(samples_);
    return chosen_;
  }
  [[nodiscard]] std::span<const float> logits(std::size_t sample) override {
    return std::span<const float>{logits_}.subspan(sample * vocabulary(), vocabulary());
  }
  [[nodiscard]] const DecoderConfig& config() const override { return decoder_->config(); }

  void set_block_tokens(Tokens tokens) { block_tokens_ = tokens.count(); }

 private:
  template <class Work>
  void enqueue(Work work) {
    gpu_->device().launch(EmulatedGpu::number(StreamId::compute), std::move(work));
  }
  [[nodiscard]] std::size_t vocabulary() const { return static_cast<std::size_t>(decoder_->config().shape.vocabulary); }

  std::unique_ptr<Decoder> decoder_;
  std::shared_ptr<EmulatedGpu> gpu_;
  std::int64_t block_tokens_ = 1;
  std::vector<float> logits_;
  std::vector<std::int32_t> chosen_;
  Ticket samples_;
};

} // namespace sluice::testing

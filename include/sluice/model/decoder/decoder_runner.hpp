// SPDX-License-Identifier: Apache-2.0
// DecoderRunner: a Decoder as a ModelRunner; a launch computes at once.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/sampler.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// Computes on the caller's thread and the decoder's own: every launch has ended when it returns.
class DecoderRunner final : public ModelRunner {
 public:
  explicit DecoderRunner(std::unique_ptr<Decoder> decoder) : decoder_(std::move(decoder)) {}

  /// Memory for activations, and for the logits of a full batch.
  [[nodiscard]] static Bytes workspace(const Decoder& decoder, std::int64_t rows, std::int64_t samples) {
    const std::int64_t logits = samples * decoder.config().shape.vocabulary;
    return decoder.workspace(rows, samples) + Bytes{logits * std::int64_t{sizeof(float)}};
  }
  [[nodiscard]] Bytes workspace(std::int64_t rows, std::int64_t samples) const override {
    return workspace(*decoder_, rows, samples);
  }
  void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) override {
    decoder_->begin(tokens, positions);
    rows_.clear();
    tokens_.clear();
  }
  void restore(std::span<const HiddenRows> rows) override { restore(*decoder_, rows); }
  void launch_layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                    int stored_rows, std::span<const HiddenRows> kept) override {
    keep(*decoder_, kept);
    decoder_->layer(layer, weights, sequences, rows, stored_rows);
  }
  [[nodiscard]] bool has_host_lane() const override { return decoder_->has_host_lane(); }
  void open_host_lane() override { decoder_->open_host_lane(); }
  [[nodiscard]] Seconds waited_for_host() const override { return decoder_->host_lane_times().waited; }
  /// Copy between a decoder's rows and hidden states elsewhere, both floats.
  static void restore(Decoder& decoder, std::span<const HiddenRows> rows) {
    each_row(decoder, rows, [](std::span<float> row, std::byte* at) { std::memcpy(row.data(), at, row.size_bytes()); });
  }
  static void keep(Decoder& decoder, std::span<const HiddenRows> rows) {
    each_row(decoder, rows, [](std::span<float> row, std::byte* at) { std::memcpy(at, row.data(), row.size_bytes()); });
  }
  void launch_samples(std::span<const SampleRow> rows) override {
    rows_.clear();
    for (const SampleRow& row : rows) rows_.push_back(row.row);
    logits_.resize(rows.size() * vocabulary());
    decoder_->logits(rows_, logits_);
    tokens_.clear();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::span<const float> one = logits(i);
      const bool finite = std::all_of(one.begin(), one.end(), [](float logit) { return std::isfinite(logit); });
      tokens_.push_back(finite ? sampled(one, rows[i]) : -1);
    }
  }
  [[nodiscard]] std::span<const std::int32_t> tokens() override { return tokens_; }
  [[nodiscard]] std::span<const float> logits(std::size_t sample) override {
    return std::span<const float>{logits_}.subspan(sample * vocabulary(), vocabulary());
  }
  [[nodiscard]] const DecoderConfig& config() const override { return decoder_->config(); }

 private:
  /// The logits stay as the model computed them: listeners see them.
  [[nodiscard]] std::int32_t sampled(std::span<const float> logits, const SampleRow& row) {
    if (row.rules == nullptr) return sample(logits, row.sampling, row.sequence, row.position);
    ruled_.assign(logits.begin(), logits.end());
    apply_rules(*row.rules, row.tokens, row.prompt, ruled_);
    const float largest = ruled_[static_cast<std::size_t>(greedy_token(ruled_))];
    return std::isfinite(largest) ? sample(ruled_, row.sampling, row.sequence, row.position) : -1;
  }
  template <class Copy>
  static void each_row(Decoder& decoder, std::span<const HiddenRows> rows, const Copy& copy) {
    for (const HiddenRows& some : rows) {
      std::byte* at = some.states;
      for (int row = some.first_row; row < some.first_row + some.rows; ++row) {
        const std::span<float> state = decoder.hidden_state(row);
        copy(state, at);
        at += state.size_bytes();
      }
    }
  }
  [[nodiscard]] std::size_t vocabulary() const { return static_cast<std::size_t>(decoder_->config().shape.vocabulary); }

  std::unique_ptr<Decoder> decoder_;
  std::vector<int> rows_;
  std::vector<float> logits_;
  std::vector<float> ruled_; ///< of one sample
  std::vector<std::int32_t> tokens_;
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// CountingDecoder: computes nothing, and counts its calls.
#pragma once

#include "sluice/model/decoder/decoder.hpp"

#include <cstdint>
#include <span>
#include <utility>

namespace sluice::testing {

class CountingDecoder final : public Decoder {
 public:
  explicit CountingDecoder(DecoderConfig config) : config_(std::move(config)) {}

  [[nodiscard]] Bytes workspace(std::int64_t rows, std::int64_t samples) const override {
    return Bytes{100 * rows + 10 * samples};
  }
  void begin(std::span<const std::int32_t>, std::span<const std::int32_t>) override { ++begun; }
  void layer(int, const LayerWeights&, std::span<const SequenceRows>, int rows, int) override {
    ++layers;
    most_rows = rows > most_rows ? rows : most_rows;
  }
  [[nodiscard]] std::span<float> hidden_state(int) override { return {}; }
  void logits(std::span<const int>, std::span<float>) override {}
  [[nodiscard]] const DecoderConfig& config() const override { return config_; }

  int begun = 0, layers = 0, most_rows = 0;

 private:
  DecoderConfig config_;
};

} // namespace sluice::testing

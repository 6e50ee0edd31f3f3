// SPDX-License-Identifier: Apache-2.0
// One sequence of a made model: its K and V in its own blocks, computed in chunks.
#pragma once

#include "sluice/model/decoder/decoder.hpp"

#include "model/decoder/made_model.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sluice::testing {

inline constexpr int block_tokens = 16;

/// K and V of one sequence: blocks at the allocator's addresses, not all aligned, full of NaN until written.
struct SequenceKv {
  SequenceKv(const DecoderConfig& config, int tokens) {
    const auto floats = static_cast<std::size_t>(kv_block_floats(config.shape, Tokens{block_tokens}));
    layers.resize(static_cast<std::size_t>(config.shape.layers));
    for (auto& layer : layers) {
      for (int t = 0; t < tokens; t += block_tokens) {
        blocks.push_back(std::make_unique<std::vector<float>>(floats + 1, std::numeric_limits<float>::quiet_NaN()));
        layer.push_back(reinterpret_cast<std::byte*>(blocks.back()->data() + blocks.size() % 2));
      }
    }
  }
  [[nodiscard]] float* block(std::size_t layer, std::size_t at) const {
    return reinterpret_cast<float*>(layers[layer][at]);
  }

  std::vector<std::unique_ptr<std::vector<float>>> blocks;
  std::vector<std::vector<std::byte*>> layers; ///< where they lie
};

/// Passes `tokens` from `position` on through all layers; returns the logits of each, and leaves K and V in `kv`.
inline std::vector<std::vector<float>> pass(Decoder& decoder, const MadeModel& model, SequenceKv& kv,
                                            std::span<const std::int32_t> tokens, int position) {
  std::vector<std::int32_t> positions;
  std::vector<int> sampled;
  for (int i = 0; i < static_cast<int>(tokens.size()); ++i) {
    positions.push_back(position + i);
    sampled.push_back(i);
  }
  decoder.begin(tokens, positions);
  const int count = static_cast<int>(tokens.size());
  for (int layer = 0; layer < model.weights.config.shape.layers; ++layer) {
    const SequenceRows rows{0, count, position, kv.layers[static_cast<std::size_t>(layer)].data(), 0};
    decoder.layer(layer, model.layer(layer), std::span{&rows, 1}, count, 0);
  }
  const auto vocabulary = static_cast<std::size_t>(model.weights.config.shape.vocabulary);
  std::vector<float> logits(tokens.size() * vocabulary);
  decoder.logits(sampled, logits);
  std::vector<std::vector<float>> rows;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    rows.emplace_back(logits.begin() + static_cast<std::ptrdiff_t>(i * vocabulary),
                      logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * vocabulary));
  }
  return rows;
}

} // namespace sluice::testing

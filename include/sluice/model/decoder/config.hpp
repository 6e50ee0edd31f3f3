// SPDX-License-Identifier: Apache-2.0
// DecoderConfig: what a decoder computes beyond its shape: norms, positions, rotations, the MLP's kind, biases.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/shape.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <vector>

namespace sluice {

/// The scaling of slow rotations ("rope_type"); `factor` 1 means none.
struct RopeScaling {
  double factor = 1;
  double low_frequency_factor = 1;  ///< turns within the original context up to which a rotation is stretched wholly
  double high_frequency_factor = 4; ///< and from which on it is not stretched
  int original_positions = 8192;
  RopeScalingKind kind = RopeScalingKind::llama3;
  double rotated_factor = 1; ///< of what rotates, in queries and keys (YaRN)
  double score_factor = 1;   ///< of attention's scores (YaRN, as DeepSeek uses it); only with latent attention

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// A decoder as a checkpoint describes it. The shape's `weight_element_bytes` and `kv_element_bytes` describe the
/// backend's memory, not the checkpoint's `torch_dtype`.
struct DecoderConfig {
  ModelShape shape;
  NormKind norm = NormKind::rms;
  float norm_epsilon = 1e-5F;
  PositionKind position = PositionKind::rotary;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  int max_positions = 1 << 20; ///< the longest context
  int position_offset = 0;     ///< row of the learned table for position 0 (OPT: 2)
  MlpKind mlp = MlpKind::gated_silu;
  bool neighbours_rotate = false; ///< a head's numbers 2 i and 2 i + 1 rotate against each other (DeepSeek)
  bool qkv_bias = false;          ///< of query, key and value projections (Qwen2, OPT)
  bool output_bias = false;       ///< of the attention's output projection (OPT)
  bool mlp_bias = false;          ///< of up and down (OPT)
  bool query_key_norm = false;    ///< RMS norm of every head's query and key before rotation (Qwen3)
  bool gated_heads = false;       ///< `query` also yields a gate for each number that a head attends (Qwen3-Next)
  std::vector<int> windows;       ///< by layer, the tokens that a token attends to, itself included; 0, or empty: all
  std::vector<int> end_tokens;    ///< any of them ends a request
  int begin_token = -1;           ///< negative: none

  /// Of one layer; 0: a token attends to its whole context.
  [[nodiscard]] int window(int layer) const { return windows.empty() ? 0 : windows[static_cast<std::size_t>(layer)]; }

  friend bool operator==(const DecoderConfig&, const DecoderConfig&) = default;
};

/// An error if a decoder cannot have this shape, or these parts together. `where` opens the error's line.
[[nodiscard]] inline Status check(const DecoderConfig& config, const std::string& where) {
  if (Status status = check(config.shape, where); !status) return status;
  if (config.gated_heads && config.qkv_bias)
    return Error{ErrorCode::bad_input, where, "heads have gates, and their projections a bias", "one of the two"};
  if (config.position == PositionKind::rotary && config.shape.rotated_dim() % 2 != 0)
    return Error{ErrorCode::bad_input, where, std::to_string(config.shape.rotated_dim()) + " numbers of a head rotate",
                 "an even number, for pairs rotate"};
  return {};
}

/// The decoder of a model that is known only by its shape: an ungated MLP means OPT; the other `named_models` are
/// Llamas, Qwens and Mixtrals. (model/checkpoint/nlohmann/hf_folder.hpp reads everything from a config.json.)
[[nodiscard]] inline DecoderConfig decoder_of(const ModelShape& shape) {
  DecoderConfig decoder;
  decoder.shape = shape;
  if (shape.experts > 0) decoder.mlp = MlpKind::experts;
  if (!shape.gated_mlp) {
    decoder.norm = NormKind::layer;
    decoder.position = PositionKind::learned;
    decoder.mlp = MlpKind::relu;
  }
  return decoder;
}

/// RoPE's angular frequency for pair `pair` of the numbers of a head that rotate: theta^(-2 pair / numbers). Llama 3.1
/// and YaRN stretch frequencies whose wavelength is long compared with the context of pretraining, and blend between
/// two limits.
[[nodiscard]] inline double rotary_frequency(const DecoderConfig& config, int pair) {
  const int numbers = config.shape.rotated_dim();
  const double frequency = std::pow(config.rope_theta, -2.0 * pair / numbers);
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.factor == 1) return frequency;
  if (scaling.kind == RopeScalingKind::yarn) {
    const auto pair_of = [&](double turns) { // that turns so often within the original context
      return numbers * std::log(scaling.original_positions / (turns * 2 * std::numbers::pi)) /
             (2 * std::log(config.rope_theta));
    };
    const double first = std::max(0.0, std::floor(pair_of(scaling.high_frequency_factor)));
    const double last = std::min(numbers - 1.0, std::ceil(pair_of(scaling.low_frequency_factor)));
    const double stretched = std::clamp((pair - first) / (last > first ? last - first : 0.001), 0.0, 1.0);
    return stretched * frequency / scaling.factor + (1 - stretched) * frequency;
  }
  const double turns = scaling.original_positions * frequency / (2 * std::numbers::pi); // within the original context
  if (turns > scaling.high_frequency_factor) return frequency;
  if (turns < scaling.low_frequency_factor) return frequency / scaling.factor;
  const double kept =
      (turns - scaling.low_frequency_factor) / (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

} // namespace sluice

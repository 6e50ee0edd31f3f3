// SPDX-License-Identifier: Apache-2.0
// small_config, small_weights: decoders of each family that an emulated GPU computes in milliseconds.
#pragma once

#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <cstdint>
#include <string>

namespace sluice::testing {

enum class SmallModel : std::uint8_t {
  llama,  ///< RMSNorm, rotation, grouped heads, a gated MLP
  opt,    ///< LayerNorm, learned positions, biases, a plain MLP, a tied head
  qwen3,  ///< a llama with QK norm
  mixtral ///< a llama with experts
};
inline constexpr SmallModel small_models[] = {SmallModel::llama, SmallModel::opt, SmallModel::qwen3,
                                              SmallModel::mixtral};

[[nodiscard]] inline std::string name_of(SmallModel model) {
  constexpr const char* names[] = {"llama", "opt", "qwen3", "mixtral"};
  return names[static_cast<int>(model)];
}

/// Head sizes are the smallest that attention accepts: on the emulator a head of 64 takes several times as long. On a
/// GPU they are the smallest that kernels are compiled for.
#if defined(SLUICE_ON_CARD)
inline constexpr int small_head_dim = 32;
#else
inline constexpr int small_head_dim = 16;
#endif

/// The sizes are the smallest that exercise every case: two heads per group, two groups, more than one tile of outputs,
/// a vocabulary and an MLP that fill no whole tile.
[[nodiscard]] inline DecoderConfig small_config(SmallModel model) {
  DecoderConfig config;
  config.shape = {.name = name_of(model),
                  .layers = 3,
                  .hidden = 32,
                  .heads = 2,
                  .kv_heads = 1,
                  .head_dim = small_head_dim,
                  .mlp = 24,
                  .gated_mlp = true,
                  .vocabulary = 31};
  config.max_positions = 512;
  switch (model) {
  case SmallModel::llama:
    break;
  case SmallModel::opt:
    config.norm = NormKind::layer;
    config.position = PositionKind::learned;
    config.position_offset = 2;
    config.mlp = MlpKind::relu;
    config.shape.gated_mlp = false;
    config.shape.kv_heads = 2;
    config.shape.tied_embeddings = true;
    config.qkv_bias = config.output_bias = config.mlp_bias = true;
    break;
  case SmallModel::qwen3:
    config.query_key_norm = true;
    config.shape.heads = 4;
    config.shape.kv_heads = 2;
    config.norm_epsilon = 1e-6F;
    config.rope_theta = 1000000;
    break;
  case SmallModel::mixtral:
    config.mlp = MlpKind::experts;
    config.shape.experts = 4;
    config.shape.experts_per_token = 2;
    config.shape.moe_intermediate = 24;
    break;
  }
  return config;
}

/// Weights, and K and V, in `element`.
[[nodiscard]] inline ModelWeights small_weights(SmallModel model, ElementType element, std::uint64_t seed = 1) {
  ModelWeights weights = random_weights(small_config(model), seed, element);
  weights.config.shape.kv_element_bytes = bytes_of(element);
  return weights;
}

} // namespace sluice::testing

// SPDX-License-Identifier: Apache-2.0
// Small decoders of every family, for tests of common properties.
#pragma once

#include "sluice/model/decoder/config.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace sluice::testing {

/// Two layers, a few heads, all sizes different.
inline DecoderConfig small_llama() {
  DecoderConfig config;
  config.shape.name = "llama";
  config.shape.layers = 2;
  config.shape.hidden = 24;
  config.shape.heads = 4;
  config.shape.kv_heads = 2;
  config.shape.head_dim = 6;
  config.shape.mlp = 40;
  config.shape.vocabulary = 50;
  config.shape.weight_element_bytes = 4;
  config.shape.kv_element_bytes = 4;
  config.max_positions = 128;
  config.end_tokens = {3};
  config.begin_token = 1;
  return config;
}

/// One of each kind: Llama, Llama 3's rotation and tied head, Qwen2, Qwen3, OPT, Mixtral, DeepSeek-V3 with experts
/// behind a dense layer, and V2 without experts.
inline std::vector<DecoderConfig> small_decoders() {
  std::vector<DecoderConfig> all{small_llama()};

  DecoderConfig scaled = small_llama();
  scaled.shape.name = "llama3";
  scaled.shape.tied_embeddings = true;
  scaled.rope_theta = 500000;
  scaled.rope_scaling = {.factor = 8, .low_frequency_factor = 1, .high_frequency_factor = 4, .original_positions = 64};
  all.push_back(scaled);

  DecoderConfig qwen2 = small_llama();
  qwen2.shape.name = "qwen2";
  qwen2.qkv_bias = true;
  qwen2.norm_epsilon = 1e-6F;
  all.push_back(qwen2);

  DecoderConfig qwen3 = small_llama();
  qwen3.shape.name = "qwen3";
  qwen3.shape.head_dim = 10; // not hidden / heads
  qwen3.query_key_norm = true;
  all.push_back(qwen3);

  DecoderConfig opt = small_llama();
  opt.shape.name = "opt";
  opt.shape.kv_heads = opt.shape.heads;
  opt.shape.gated_mlp = false;
  opt.shape.tied_embeddings = true;
  opt.norm = NormKind::layer;
  opt.position = PositionKind::learned;
  opt.position_offset = 2;
  opt.mlp = MlpKind::relu;
  opt.qkv_bias = opt.output_bias = opt.mlp_bias = true;
  all.push_back(opt);

  DecoderConfig mixtral = small_llama();
  mixtral.shape.name = "mixtral";
  mixtral.shape.experts = 5;
  mixtral.shape.experts_per_token = 2;
  mixtral.shape.moe_intermediate = 28;
  mixtral.shape.mlp = 28;
  mixtral.mlp = MlpKind::experts;
  all.push_back(mixtral);

  DecoderConfig deepseek = small_llama();
  deepseek.shape.name = "deepseek_v3";
  deepseek.shape.kv_heads = 1;
  deepseek.shape.head_dim = 10;
  deepseek.shape.latent = {.rank = 20, .rotated = 4, .value = 8, .query_rank = 14};
  deepseek.norm_epsilon = 1e-6F;
  deepseek.neighbours_rotate = true;
  deepseek.rope_scaling = {.factor = 8,
                           .low_frequency_factor = 1,
                           .high_frequency_factor = 32,
                           .original_positions = 64,
                           .kind = RopeScalingKind::yarn,
                           .rotated_factor = 0.1 * std::log(8.0) + 1};
  DecoderConfig routed = deepseek;
  routed.shape.dense.insert(0);
  routed.shape.experts = 4;
  routed.shape.experts_per_token = 2;
  routed.shape.moe_intermediate = 12;
  routed.shape.shared_intermediate = 24;
  routed.mlp = MlpKind::experts;
  routed.routing = {.score = RouterScore::sigmoid,
                    .corrected = true,
                    .scale = 2.5,
                    .groups = 2,
                    .groups_per_token = 1,
                    .group_scores = 2};
  all.push_back(routed);

  DecoderConfig direct = deepseek; // its queries have no rank
  direct.shape.name = "deepseek_v2";
  direct.shape.latent.query_rank = 0;
  direct.rope_scaling = {};
  all.push_back(direct);
  return all;
}

} // namespace sluice::testing

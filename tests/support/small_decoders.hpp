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
/// behind a dense layer, Kimi-K2 like it, V2 without experts, GLM-4.5, Qwen3-Next with experts and a dense layer, and
/// Qwen3.5 without experts and with them.
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
  DecoderConfig kimi = routed;
  kimi.shape.name = "kimi_k2";
  kimi.rope_scaling.high_frequency_factor = 1; // as low as the other
  all.push_back(kimi);

  DecoderConfig glm = small_llama();
  glm.shape.name = "glm4_moe";
  glm.shape.head_dim = 12;
  glm.shape.rotated = 6;
  glm.shape.dense = routed.shape.dense;
  glm.shape.experts = 4;
  glm.shape.experts_per_token = 2;
  glm.shape.moe_intermediate = 12;
  glm.shape.shared_intermediate = 12;
  glm.mlp = MlpKind::experts;
  glm.routing = routed.routing;
  glm.qkv_bias = glm.query_key_norm = true;
  all.push_back(glm);

  DecoderConfig direct = deepseek; // its queries have no rank
  direct.shape.name = "deepseek_v2";
  direct.shape.latent.query_rank = 0;
  direct.rope_scaling = {};
  all.push_back(direct);

  DecoderConfig next = small_llama();
  next.shape.name = "qwen3_next";
  next.shape.layers = 3;
  next.shape.head_dim = 16;
  next.shape.rotated = 4;
  next.shape.delta = {.key_heads = 2, .value_heads = 6, .key_dim = 5, .value_dim = 7, .kernel = 3};
  next.shape.delta.layers.insert(0).insert(2);
  next.norm = NormKind::rms_offset;
  next.norm_epsilon = 1e-6F;
  next.query_key_norm = next.gated_heads = next.joint_states = true;
  DecoderConfig sparse = next;
  sparse.shape.layers = 4; // dense and sparse ones with a state, and one that attends
  sparse.shape.delta.layers.insert(3);
  sparse.shape.dense.insert(2);
  sparse.shape.experts = 5;
  sparse.shape.experts_per_token = 3;
  sparse.shape.moe_intermediate = 12;
  sparse.shape.shared_intermediate = 20;
  sparse.mlp = MlpKind::experts;
  sparse.gated_shared_experts = true;
  all.push_back(sparse);

  DecoderConfig apart = next; // a matrix for each projection
  apart.shape.name = "qwen3_5_text";
  apart.joint_states = false;
  all.push_back(apart);
  apart.shape.name = "qwen3_5_moe_text";
  apart.shape.mlp = 1; // no layer has one
  apart.shape.experts = 5;
  apart.shape.experts_per_token = 3;
  apart.shape.moe_intermediate = 12;
  apart.shape.shared_intermediate = 20;
  apart.mlp = MlpKind::experts;
  apart.gated_shared_experts = true;
  all.push_back(apart);
  return all;
}

} // namespace sluice::testing

// SPDX-License-Identifier: Apache-2.0
// Small decoders of each family, with weights that a few lines in any language can reproduce.
#pragma once

#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace sluice::testing {

/// The hidden sizes are no multiples of 16 where the family allows it, to test the tails.
inline DecoderConfig family_config(const std::string& family) {
  DecoderConfig config;
  config.shape = {.name = family,
                  .layers = 3,
                  .hidden = 64,
                  .heads = 4,
                  .kv_heads = 2,
                  .head_dim = 16,
                  .mlp = 96,
                  .gated_mlp = true,
                  .vocabulary = 101,
                  .weight_element_bytes = 4,
                  .kv_element_bytes = 4};
  if (family == "llama2") {
    config.shape.kv_heads = 4;
    config.shape.mlp = 88;
  } else if (family == "llama3") {
    config.rope_theta = 500;
    config.rope_scaling = {
        .factor = 8, .low_frequency_factor = 1, .high_frequency_factor = 4, .original_positions = 64};
  } else if (family == "qwen2") {
    config.qkv_bias = true;
    config.norm_epsilon = 1e-6F;
    config.rope_theta = 1000000;
    config.shape.tied_embeddings = true;
  } else if (family == "qwen3") {
    config.shape.hidden = 56;
    config.shape.head_dim = 24;
    config.query_key_norm = true;
    config.norm_epsilon = 1e-6F;
    config.rope_theta = 1000000;
  } else if (family == "opt") {
    config.norm = NormKind::layer;
    config.position = PositionKind::learned;
    config.position_offset = 2;
    config.max_positions = 80;
    config.mlp = MlpKind::relu;
    config.shape.gated_mlp = false;
    config.shape.kv_heads = 4;
    config.qkv_bias = config.output_bias = config.mlp_bias = true;
    config.shape.tied_embeddings = true;
  } else if (family == "deepseek") {
    config.shape.kv_heads = 1;
    config.shape.head_dim = 20;
    config.shape.latent = {.rank = 40, .rotated = 8, .value = 12, .query_rank = 24};
    config.neighbours_rotate = true;
  } else if (family == "deepseek_experts") { // DeepSeek-V3's, behind a dense layer
    config = family_config("deepseek");
    config.shape.dense.insert(0);
    config.shape.experts = 9;
    config.shape.experts_per_token = 3;
    config.shape.moe_intermediate = 40;
    config.shape.shared_intermediate = 56;
    config.mlp = MlpKind::experts;
    config.routing = {.score = RouterScore::sigmoid,
                      .corrected = true,
                      .scale = 2.5,
                      .groups = 3,
                      .groups_per_token = 2,
                      .group_scores = 2};
  } else if (family == "glm4_moe") { // GLM-4.5's, with DeepSeek-V3's experts
    config = family_config("deepseek_experts");
    config.shape.kv_heads = 2;
    config.shape.latent = {};
    config.shape.rotated = 8;
    config.neighbours_rotate = false;
    config.qkv_bias = config.query_key_norm = true;
    config.rope_theta = 1000000;
  } else if (family == "qwen3_5_experts") {
    config = family_config("qwen3_next_experts");
    config.joint_states = false;
    config.shape.dense = {};
  } else if (family == "qwen3_next") {
    config = family_config("qwen3_5");
    config.joint_states = true;
  } else if (family == "qwen3_next_experts") { // and a dense layer between them
    config = family_config("qwen3_next");
    config.shape.dense.insert(1);
    config.shape.experts = 7;
    config.shape.experts_per_token = 3;
    config.shape.moe_intermediate = 40;
    config.shape.shared_intermediate = 56;
    config.mlp = MlpKind::experts;
    config.gated_shared_experts = true;
  } else if (family == "qwen3_5") {
    config.shape.layers = 4;
    config.shape.head_dim = 20;
    config.shape.rotated = 8;
    config.shape.delta = {.key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 20, .kernel = 4};
    config.shape.delta.layers.insert(0).insert(1).insert(2);
    config.norm = NormKind::rms_offset;
    config.norm_epsilon = 1e-6F;
    config.query_key_norm = config.gated_heads = true;
  } else if (family == "mixtral") {
    config.mlp = MlpKind::experts;
    config.shape.experts = 5;
    config.shape.experts_per_token = 2;
    config.shape.moe_intermediate = 40;
    config.rope_theta = 1000000;
  }
  return config;
}

/// Those that tests/reference has logits of torch for.
inline const char* const families[] = {"llama2", "llama3", "qwen2", "qwen3", "opt", "mixtral"};

/// Element `element` of tensor `tensor`: uniform in [-1, 1) in steps of 2^-23, from splitmix64's finish of both
/// numbers.
inline float made_number(std::uint64_t tensor, std::uint64_t element) {
  std::uint64_t z = (tensor << 32) + element + 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  z ^= z >> 31;
  return static_cast<float>(z >> 40) * 0x1p-23F - 1.0F;
}

enum class OuterTensor : std::uint8_t { embedding, positions, final_norm, final_norm_bias, head };

/// The scale and offset of a tensor's numbers.
struct Range {
  float scale = 0.25F;
  float middle = 0;
};

inline void write_number(float value, ElementType type, std::byte* to) {
  if (type == ElementType::f32) {
    std::memcpy(to, &value, sizeof value);
  } else {
    const std::uint16_t bits = type == ElementType::bf16
                                   ? Eigen::bfloat16_impl::float_to_bfloat16_rtne<false>(value).value
                                   : Eigen::half_impl::float_to_half_rtne(value).x;
    std::memcpy(to, &bits, sizeof bits);
  }
}

inline void write_tensor(std::uint64_t tensor, std::int64_t count, Range range, ElementType type, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = made_number(tensor, static_cast<std::uint64_t>(i)) * range.scale + range.middle;
    write_number(value, type, to + i * bytes_of(type));
  }
}

inline LayerLayout made_layout(const DecoderConfig& config, ElementType type, LayerKind kind) {
  const ModelShape& shape = config.shape;
  const std::int64_t hidden = shape.hidden;
  const std::int64_t queries = std::int64_t{shape.heads} * shape.head_dim;
  const std::int64_t keys = std::int64_t{shape.kv_heads} * shape.head_dim;
  const bool state = kind.state, experts = shape.experts > 0 && !kind.dense;
  const std::int64_t mlp = experts ? shape.moe_intermediate : shape.mlp;
  LayerLayout layout;
  const auto vector = [&](LayerTensor tensor, std::int64_t columns) { layout.add(tensor, 1, columns, type); };
  vector(LayerTensor::attention_norm, hidden);
  vector(LayerTensor::mlp_norm, hidden);
  if (config.norm == NormKind::layer) {
    vector(LayerTensor::attention_norm_bias, hidden);
    vector(LayerTensor::mlp_norm_bias, hidden);
  }
  if (config.qkv_bias) {
    vector(LayerTensor::query_bias, queries);
    vector(LayerTensor::key_bias, keys);
    vector(LayerTensor::value_bias, keys);
  }
  if (config.output_bias) vector(LayerTensor::output_bias, hidden);
  if (config.query_key_norm && !state) {
    vector(LayerTensor::query_norm, shape.head_dim);
    vector(LayerTensor::key_norm, shape.head_dim);
  }
  const LatentAttention& latent = shape.latent;
  if (latent.query_rank > 0) vector(LayerTensor::query_norm, latent.query_rank);
  if (latent.rank > 0) vector(LayerTensor::key_norm, latent.rank);
  if (config.mlp_bias) {
    vector(LayerTensor::up_bias, mlp);
    vector(LayerTensor::down_bias, hidden);
  }
  if (experts && config.routing.corrected) vector(LayerTensor::router_bias, shape.experts);
  if (experts && config.gated_shared_experts) vector(LayerTensor::shared_gate, hidden);
  if (experts) layout.add(LayerTensor::router, shape.experts, hidden, type);
  if (state) {
    const DeltaRule& delta = shape.delta;
    const std::int64_t read = std::int64_t{delta.value_heads} * delta.value_dim;
    vector(LayerTensor::decay_log, delta.value_heads);
    vector(LayerTensor::decay_bias, delta.value_heads);
    vector(LayerTensor::state_norm, delta.value_dim);
    layout.add(LayerTensor::convolution, delta.channels(), delta.kernel, type);
    if (config.joint_states) {
      layout.add(LayerTensor::mixed, delta.channels() + read, hidden, type);
      layout.add(LayerTensor::update, std::int64_t{2} * delta.value_heads, hidden, type);
    } else {
      layout.add(LayerTensor::mixed, delta.channels(), hidden, type);
      layout.add(LayerTensor::state_gate, read, hidden, type);
      layout.add(LayerTensor::update, delta.value_heads, hidden, type);
      layout.add(LayerTensor::decay, delta.value_heads, hidden, type);
    }
    layout.add(LayerTensor::output, hidden, read, type);
  } else if (latent.rank > 0) {
    if (latent.query_rank > 0) layout.add(LayerTensor::query_down, latent.query_rank, hidden, type);
    layout.add(LayerTensor::query, queries, latent.query_rank > 0 ? latent.query_rank : hidden, type);
    layout.add(LayerTensor::key, latent.rank + latent.rotated, hidden, type);
    const int expanded = shape.head_dim - latent.rotated + latent.value;
    layout.add(LayerTensor::latent_up, std::int64_t{shape.heads} * expanded, latent.rank, type);
    layout.add(LayerTensor::output, hidden, std::int64_t{shape.heads} * latent.value, type);
  } else {
    layout.add(LayerTensor::query, config.gated_heads ? 2 * queries : queries, hidden, type);
    layout.add(LayerTensor::key, keys, hidden, type);
    layout.add(LayerTensor::value, keys, hidden, type);
    layout.add(LayerTensor::output, hidden, queries, type);
  }
  const auto add_mlp = [&](std::int64_t width, int number) {
    if (shape.gated_mlp) layout.add(LayerTensor::gate, width, hidden, type, number);
    layout.add(LayerTensor::up, width, hidden, type, number);
    layout.add(LayerTensor::down, hidden, width, type, number);
  };
  if (!experts) add_mlp(mlp, -1);
  for (int expert = 0; experts && expert < shape.experts; ++expert) add_mlp(mlp, expert);
  if (experts && shape.shared_intermediate > 0) add_mlp(shape.shared_intermediate, shape.experts);
  return layout;
}

/// Weights that live as long as this object: each layer's image, and the tensors outside.
struct MadeModel {
  using Image = std::vector<std::byte>;

  MadeModel(const DecoderConfig& config, ElementType type) {
    const ModelShape& shape = config.shape;
    weights.config = config;
    weights.lay_out_layers(config, [&](LayerKind kind) { return made_layout(config, type, kind); });
    for (int layer = 0; layer < shape.layers; ++layer) {
      Image image(static_cast<std::size_t>(weights.layout.bytes.count()));
      std::vector<const std::byte*> places;
      for (const TensorPlace& place : weights.layout_at(layer).places) {
        const bool norm = config.norm != NormKind::rms_offset &&
                          (place.tensor == LayerTensor::attention_norm || place.tensor == LayerTensor::mlp_norm ||
                           place.tensor == LayerTensor::query_norm || place.tensor == LayerTensor::key_norm);
        const auto number =
            static_cast<std::uint64_t>(((layer + 1) * 64 + static_cast<int>(place.tensor)) * 64 + place.expert + 1);
        Range range{0.25F, norm ? 1.0F : 0.0F};
        if (place.tensor == LayerTensor::decay_bias) range = {1, -2};
        if (place.tensor == LayerTensor::state_norm) range = {0.25F, 1};
        if (place.tensor == LayerTensor::router_bias) range = {0.25F, -1}; // below the scores of no group
        write_tensor(number, place.rows * place.columns, range, type, image.data() + place.offset);
      }
      images.push_back(std::move(image));
      for (const TensorPlace& place : weights.layout_at(layer).places)
        places.push_back(images.back().data() + place.offset);
      weights.layers.push_back(std::move(places));
    }
    const auto outer = [&](OuterTensor tensor, std::int64_t rows, std::int64_t columns, Range range) {
      Image image(static_cast<std::size_t>(rows * columns * bytes_of(type)));
      write_tensor(static_cast<std::uint64_t>(tensor), rows * columns, range, type, image.data());
      images.push_back(std::move(image));
      return Matrix::whole(images.back().data(), rows, columns, type);
    };
    weights.embedding = outer(OuterTensor::embedding, shape.vocabulary, shape.hidden, {1, 0});
    if (config.position == PositionKind::learned) {
      weights.positions =
          outer(OuterTensor::positions, config.max_positions + config.position_offset, shape.hidden, {1, 0});
    }
    weights.final_norm =
        outer(OuterTensor::final_norm, 1, shape.hidden, {0.25F, config.norm == NormKind::rms_offset ? 0.0F : 1.0F});
    if (config.norm == NormKind::layer) {
      weights.final_norm_bias = outer(OuterTensor::final_norm_bias, 1, shape.hidden, {});
    }
    weights.head =
        shape.tied_embeddings ? weights.embedding : outer(OuterTensor::head, shape.vocabulary, shape.hidden, {});
  }

  [[nodiscard]] LayerWeights layer(int at) const {
    return {weights.layout_at(at), images[static_cast<std::size_t>(at)].data(), nullptr, weights.layout.bytes.count()};
  }

  ModelWeights weights;
  std::vector<Image> images; // the layers', then the others
};

} // namespace sluice::testing

// SPDX-License-Identifier: Apache-2.0
// layout_of: a decoder layer's tensors, their sizes and order in a layer's image, and Hugging Face's names for them.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// The image of a layer of `config` of one kind: vectors first, so that a layer that streams in part keeps its norms
/// and biases resident; then the matrices in the order of use. `type_of(tensor, expert)` chooses each tensor's type;
/// `expert` is -1 except for matrices of experts.
template <class TypeOf>
  requires std::regular_invocable<const TypeOf&, LayerTensor, int>
[[nodiscard]] LayerLayout layout_of(const DecoderConfig& config, const TypeOf& type_of, LayerKind kind = {}) {
  const ModelShape& shape = config.shape;
  const std::int64_t hidden = shape.hidden;
  const std::int64_t queries = std::int64_t{shape.heads} * shape.head_dim;
  const std::int64_t keys = std::int64_t{shape.kv_heads} * shape.kv_width(); // of a latent, its entry
  const LatentAttention& latent = shape.latent;
  const DeltaRule& delta = shape.delta;
  const std::int64_t read = std::int64_t{delta.value_heads} * delta.value_dim;
  const bool state = kind.state, attends = !state, experts = config.mlp == MlpKind::experts && !kind.dense;
  const std::int64_t mlp = experts ? shape.moe_intermediate : shape.mlp;

  LayerLayout layout;
  const auto add = [&](bool there, LayerTensor tensor, std::int64_t rows, std::int64_t columns, int expert = -1) {
    if (there) layout.add(tensor, rows, columns, type_of(tensor, expert), expert);
  };
  const bool layer_norm = config.norm == NormKind::layer;
  add(true, LayerTensor::attention_norm, 1, hidden);
  add(layer_norm, LayerTensor::attention_norm_bias, 1, hidden);
  add(attends && config.qkv_bias, LayerTensor::query_bias, 1, queries);
  add(attends && config.qkv_bias, LayerTensor::key_bias, 1, keys);
  add(attends && config.qkv_bias, LayerTensor::value_bias, 1, keys);
  add(attends && config.output_bias, LayerTensor::output_bias, 1, hidden);
  add(attends && config.query_key_norm, LayerTensor::query_norm, 1, shape.head_dim);
  add(attends && config.query_key_norm, LayerTensor::key_norm, 1, shape.head_dim);
  add(latent.query_rank > 0, LayerTensor::query_norm, 1, latent.query_rank);
  add(shape.has_latents(), LayerTensor::key_norm, 1, latent.rank);
  add(state, LayerTensor::decay_log, 1, delta.value_heads);
  add(state, LayerTensor::decay_bias, 1, delta.value_heads);
  add(state, LayerTensor::state_norm, 1, delta.value_dim);
  add(true, LayerTensor::mlp_norm, 1, hidden);
  add(layer_norm, LayerTensor::mlp_norm_bias, 1, hidden);
  add(config.mlp_bias, LayerTensor::up_bias, 1, mlp);
  add(config.mlp_bias, LayerTensor::down_bias, 1, hidden);
  add(experts && config.routing.corrected, LayerTensor::router_bias, 1, shape.experts);
  add(experts && config.gated_shared_experts, LayerTensor::shared_gate, 1, hidden);
  add(experts, LayerTensor::router, shape.experts, hidden);
  add(latent.query_rank > 0, LayerTensor::query_down, latent.query_rank, hidden);
  add(attends, LayerTensor::query, queries * (config.gated_heads ? 2 : 1),
      latent.query_rank > 0 ? latent.query_rank : hidden);
  add(attends, LayerTensor::key, keys, hidden);
  add(attends && !shape.has_latents(), LayerTensor::value, keys, hidden);
  add(shape.has_latents(), LayerTensor::latent_up,
      std::int64_t{shape.heads} * (shape.head_dim - latent.rotated + latent.value), latent.rank);
  const bool joint = config.joint_states;
  add(state, LayerTensor::mixed, delta.channels() + (joint ? read : 0), hidden);
  add(state && !joint, LayerTensor::state_gate, read, hidden);
  add(state, LayerTensor::update, std::int64_t{delta.value_heads} * (joint ? 2 : 1), hidden);
  add(state && !joint, LayerTensor::decay, delta.value_heads, hidden);
  add(state, LayerTensor::convolution, delta.channels(), delta.kernel);
  add(true, LayerTensor::output, hidden, state ? read : std::int64_t{shape.heads} * shape.value_dim());
  for (int expert = experts ? 0 : -1; expert < (experts ? shape.experts : 0); ++expert) {
    add(config.mlp != MlpKind::relu, LayerTensor::gate, mlp, hidden, expert);
    add(true, LayerTensor::up, mlp, hidden, expert);
    add(true, LayerTensor::down, hidden, mlp, expert);
  }
  const bool shared = experts && shape.shared_intermediate > 0;
  add(shared, LayerTensor::gate, shape.shared_intermediate, hidden, shape.experts);
  add(shared, LayerTensor::up, shape.shared_intermediate, hidden, shape.experts);
  add(shared, LayerTensor::down, hidden, shape.shared_intermediate, shape.experts);
  return layout;
}

/// The same with one type for all tensors.
[[nodiscard]] inline LayerLayout layout_of(const DecoderConfig& config, ElementType type, LayerKind kind = {}) {
  return layout_of(
      config, [type](LayerTensor, int) { return type; }, kind);
}

// Hugging Face's names for the tensors of a decoder.

/// The names of a decoder's tensors outside the layers, without the prefix "model.", which some checkpoints lack.
struct OuterTensorNames {
  std::string embedding, positions, final_norm, final_norm_bias;
  std::string head = "lm_head.weight"; ///< never has the prefix
};

/// Learned positions identify OPT's family; the others share their names.
[[nodiscard]] OuterTensorNames outer_tensor_names(const DecoderConfig& config);

/// The shape of a layer's tensor in a checkpoint: a vector has one extent, and a convolution of channels one more.
[[nodiscard]] std::vector<std::int64_t> stored_shape(const TensorPlace& place);

/// The name of a layer's tensor, without the prefix. `expert` is used only for an expert's tensor.
[[nodiscard]] std::string layer_tensor_name(const DecoderConfig& config, int layer, LayerTensor tensor, int expert);

/// A tensor of all experts of a layer, which some checkpoints have instead of each expert's: one matrix after another,
/// of an expert first `gate` and then `up`.
struct PackedExperts {
  std::string name; ///< without the prefix
  std::vector<std::int64_t> shape;
  int matrix = 0; ///< which of them is the expert's
};
/// Empty if no checkpoint of such a model packs this tensor.
[[nodiscard]] std::optional<PackedExperts> packed_experts(const DecoderConfig& config, int layer, LayerTensor tensor,
                                                          int expert);

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/checkpoint/layer_layout.inl.hpp"
#endif

// SPDX-License-Identifier: Apache-2.0
// layout_of: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/model/checkpoint/layer_layout.hpp"

namespace sluice {

SLUICE_MODEL_INLINE OuterTensorNames outer_tensor_names(const DecoderConfig& config) {
  if (config.position == PositionKind::learned) {
    return {"decoder.embed_tokens.weight", "decoder.embed_positions.weight", "decoder.final_layer_norm.weight",
            "decoder.final_layer_norm.bias"};
  }
  return {"embed_tokens.weight", "", "norm.weight", "norm.bias"};
}

SLUICE_MODEL_INLINE std::vector<std::int64_t> stored_shape(const TensorPlace& place) {
  if (is_vector(place.tensor)) return {place.columns};
  if (place.tensor == LayerTensor::convolution) return {place.rows, 1, place.columns};
  return {place.rows, place.columns};
}

SLUICE_MODEL_INLINE std::string layer_tensor_name(const DecoderConfig& config, int layer, LayerTensor tensor,
                                                  int expert) {
  const bool opt = config.position == PositionKind::learned;
  const std::string start = (opt ? "decoder.layers." : "layers.") + std::to_string(layer) + ".";
  const bool latents = config.shape.has_latents(), states = config.shape.has_states();
  const bool letters = !latents && !states && config.routing.score == RouterScore::softmax; // Mixtral
  const std::string sparse = start + (letters ? "block_sparse_moe." : "mlp.");
  const bool experts = config.mlp == MlpKind::experts && !config.kind(layer).dense;
  const auto of_expert = [&](const char* letter, const char* name) {
    const std::string shared = states ? "shared_expert." : "shared_experts.";
    const std::string own = expert == config.shape.experts ? shared : "experts." + std::to_string(expert) + ".";
    return sparse + own + (letters ? letter : name) + ".weight";
  };
  switch (tensor) {
  case LayerTensor::attention_norm:
    return start + (opt ? "self_attn_layer_norm.weight" : "input_layernorm.weight");
  case LayerTensor::attention_norm_bias:
    return start + (opt ? "self_attn_layer_norm.bias" : "input_layernorm.bias");
  case LayerTensor::query_bias:
    return start + "self_attn.q_proj.bias";
  case LayerTensor::key_bias:
    return start + "self_attn.k_proj.bias";
  case LayerTensor::value_bias:
    return start + "self_attn.v_proj.bias";
  case LayerTensor::output_bias:
    return start + (opt ? "self_attn.out_proj.bias" : "self_attn.o_proj.bias");
  case LayerTensor::query_norm:
    return start + (latents ? "self_attn.q_a_layernorm.weight" : "self_attn.q_norm.weight");
  case LayerTensor::key_norm:
    return start + (latents ? "self_attn.kv_a_layernorm.weight" : "self_attn.k_norm.weight");
  case LayerTensor::mlp_norm:
    return start + (opt ? "final_layer_norm.weight" : "post_attention_layernorm.weight");
  case LayerTensor::mlp_norm_bias:
    return start + (opt ? "final_layer_norm.bias" : "post_attention_layernorm.bias");
  case LayerTensor::up_bias:
    return start + (opt ? "fc1.bias" : "mlp.up_proj.bias");
  case LayerTensor::down_bias:
    return start + (opt ? "fc2.bias" : "mlp.down_proj.bias");
  case LayerTensor::router:
    return sparse + "gate.weight";
  case LayerTensor::router_bias:
    return sparse + "gate.e_score_correction_bias";
  case LayerTensor::shared_gate:
    return sparse + "shared_expert_gate.weight";
  case LayerTensor::query:
    return start + (config.shape.latent.query_rank > 0 ? "self_attn.q_b_proj.weight" : "self_attn.q_proj.weight");
  case LayerTensor::key:
    return start + (latents ? "self_attn.kv_a_proj_with_mqa.weight" : "self_attn.k_proj.weight");
  case LayerTensor::value:
    return start + "self_attn.v_proj.weight";
  case LayerTensor::decay_log:
    return start + "linear_attn.A_log";
  case LayerTensor::decay_bias:
    return start + "linear_attn.dt_bias";
  case LayerTensor::state_norm:
    return start + "linear_attn.norm.weight";
  case LayerTensor::convolution:
    return start + "linear_attn.conv1d.weight";
  case LayerTensor::mixed:
    return start + (config.joint_states ? "linear_attn.in_proj_qkvz.weight" : "linear_attn.in_proj_qkv.weight");
  case LayerTensor::state_gate:
    return start + "linear_attn.in_proj_z.weight";
  case LayerTensor::update:
    return start + (config.joint_states ? "linear_attn.in_proj_ba.weight" : "linear_attn.in_proj_b.weight");
  case LayerTensor::decay:
    return start + "linear_attn.in_proj_a.weight";
  case LayerTensor::output:
    if (config.shape.delta.layers.contains(layer)) return start + "linear_attn.out_proj.weight";
    return start + (opt ? "self_attn.out_proj.weight" : "self_attn.o_proj.weight");
  case LayerTensor::gate:
    return experts ? of_expert("w1", "gate_proj") : start + "mlp.gate_proj.weight";
  case LayerTensor::up:
    return experts ? of_expert("w3", "up_proj") : start + (opt ? "fc1.weight" : "mlp.up_proj.weight");
  case LayerTensor::down:
    return experts ? of_expert("w2", "down_proj") : start + (opt ? "fc2.weight" : "mlp.down_proj.weight");
  case LayerTensor::query_down:
    return start + "self_attn.q_a_proj.weight";
  case LayerTensor::latent_up:
    return start + "self_attn.kv_b_proj.weight";
  }
  return {};
}

SLUICE_MODEL_INLINE std::optional<PackedExperts> packed_experts(const DecoderConfig& config, int layer,
                                                                LayerTensor tensor, int expert) {
  const ModelShape& shape = config.shape;
  const bool packs = shape.has_states() && !config.joint_states; // Qwen3.5
  if (!packs || expert < 0 || expert == shape.experts) return std::nullopt;
  const std::string start = "layers." + std::to_string(layer) + ".mlp.experts.";
  if (tensor == LayerTensor::down)
    return PackedExperts{start + "down_proj", {shape.experts, shape.hidden, shape.moe_intermediate}, expert};
  return PackedExperts{start + "gate_up_proj",
                       {shape.experts, std::int64_t{2} * shape.moe_intermediate, shape.hidden},
                       2 * expert + (tensor == LayerTensor::up ? 1 : 0)};
}

} // namespace sluice

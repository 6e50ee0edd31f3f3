// SPDX-License-Identifier: Apache-2.0
// Hybrids: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/nlohmann/hf_decoders.hpp"
#include "sluice/model/nlohmann/hf_latent.hpp"
#include "sluice/model/nlohmann/hf_states.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sluice::detail {

/// Bytes of an element of a recurrent state; `otherwise` if the config does not say.
inline int state_element_bytes(HfFields& fields, const char* name, int otherwise) {
  if (!fields.has(name)) return otherwise;
  const std::string type = fields.text(name, "");
  if (type == "float32") return 4;
  if (type == "float16" || type == "bfloat16") return 2;
  fields.refuse(std::string{name} + " is '" + excerpt(type) + "'", "float32, float16 or bfloat16");
  return otherwise;
}

/// The sizes of Mamba-2.
struct Mamba {
  int heads = 0, head_dim = 0, groups = 0, state = 0, kernel = 0;
  bool conv_bias = true;
  int state_bytes = 2; ///< of an element of the state
};

inline void add_mamba(HfModules& modules, const Mamba& of, int element_bytes, const std::string& at) {
  const std::int64_t inner = std::int64_t{of.heads} * of.head_dim;
  const std::int64_t mixed = inner + std::int64_t{2} * of.groups * of.state; // what the convolution mixes
  LayerDescription& layer = modules.layer();
  layer.attention = AttentionKind::mamba;
  layer.heads = of.heads;
  layer.head_dim = of.head_dim;
  layer.value_dim = of.state;
  modules.linear(at + ".in_proj", ModuleClass::attention, inner + mixed + of.heads, modules.hidden());
  modules.plain(at + ".conv1d", ModuleClass::attention, mixed, of.kernel);
  if (of.conv_bias) modules.norm(at + ".conv1d.bias", mixed);
  for (const char* name : {"A_log", "D", "dt_bias"}) modules.norm(at + "." + name, of.heads);
  modules.norm(at + ".norm", inner);
  modules.linear(at + ".out_proj", ModuleClass::attention, modules.hidden(), inner);
  modules.keeps(
      {.kind = KvKind::state, .entry = inner * of.state * of.state_bytes + (of.kernel - 1) * mixed * element_bytes});
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE std::vector<bool> hf_state_layers(HfFields& fields, int layers) {
  std::vector<bool> linear(static_cast<std::size_t>(layers), true);
  const bool repeats = fields.has("full_attention_interval");
  if (const std::vector<std::string> types = fields.texts("layer_types"); !types.empty()) {
    if (types.size() != linear.size())
      return fields.refuse("layer_types has " + std::to_string(types.size()) + " entries", std::to_string(layers)),
             linear;
    for (std::size_t l = 0; l < types.size(); ++l) {
      if (types[l] != "linear_attention" && types[l] != "full_attention")
        fields.refuse("layer_types holds '" + excerpt(types[l]) + "'", "linear_attention or full_attention");
      linear[l] = types[l] == "linear_attention";
    }
  } else if (repeats) {
    const int interval = fields.size("full_attention_interval");
    for (int l = 0; l < layers; ++l) linear[static_cast<std::size_t>(l)] = (l + 1) % interval != 0;
  } else {
    fields.refuse("layer_types is missing", "the attention of each layer, or full_attention_interval");
  }
  return linear;
}

SLUICE_READERS_INLINE void hf_gated_delta(HfFields& fields, HfModules& modules, ModelDescription& model,
                                          std::string_view type) {
  constexpr ModuleClass attention = ModuleClass::attention;
  const bool next = type == "qwen3_next";
  const bool moe = type.find("moe") != std::string_view::npos || next;
  const int layers = fields.size("num_hidden_layers"), hidden = model.hidden;
  (void)fields.size("head_dim");
  detail::Heads heads = detail::heads_of(fields, hidden);
  heads.gate = fields.flag("attn_output_gate", true);
  fields.known({"output_gate_type"});
  if (fields.flag("attention_bias", false)) fields.refuse("attention_bias is true", "false");
  const std::int64_t key = std::int64_t{fields.size("linear_key_head_dim")} * fields.size("linear_num_key_heads");
  const int value_heads = fields.size("linear_num_value_heads");
  const int value_dim = fields.size("linear_value_head_dim"), key_dim = fields.size("linear_key_head_dim");
  const std::int64_t value = std::int64_t{value_heads} * value_dim;
  const int kernel = fields.size("linear_conv_kernel_dim");
  // The rule is computed in f32, and the class keeps its state so.
  const int state_bytes = detail::state_element_bytes(fields, "mamba_ssm_dtype", 4);
  const int f32 = next ? 0 : 4; // Qwen3.5 stores A_log and the gated norm in f32
  const std::vector<bool> linear = hf_state_layers(fields, layers);
  std::vector<bool> sparse(static_cast<std::size_t>(layers), false);
  HfExperts experts;
  int shared = 0;
  if (moe) {
    sparse = hf_sparse_layers(fields, layers);
    experts = usual_experts(fields, "num_experts");
    shared = fields.size("shared_expert_intermediate_size");
  }
  const int width = !moe || fields.has("intermediate_size") ? fields.size("intermediate_size") : 0;
  for (int l = 0; l < layers; ++l) {
    modules.begin_layer();
    if (linear[static_cast<std::size_t>(l)]) {
      LayerDescription& layer = modules.layer();
      layer.attention = AttentionKind::gated_delta;
      layer.heads = layer.kv_heads = value_heads;
      layer.head_dim = key_dim;
      layer.value_dim = value_dim;
      if (next) {
        modules.linear("linear_attn.in_proj_qkvz", attention, 2 * (key + value), hidden);
        modules.linear("linear_attn.in_proj_ba", attention, 2 * value_heads, hidden);
      } else {
        modules.linear("linear_attn.in_proj_qkv", attention, 2 * key + value, hidden);
        modules.linear("linear_attn.in_proj_z", attention, value, hidden);
        modules.linear("linear_attn.in_proj_b", attention, value_heads, hidden);
        modules.linear("linear_attn.in_proj_a", attention, value_heads, hidden);
      }
      modules.plain("linear_attn.conv1d", attention, 2 * key + value, kernel);
      modules.norm("linear_attn.dt_bias", value_heads);
      modules.norm("linear_attn.A_log", value_heads, f32);
      modules.norm("linear_attn.norm", value_dim, f32);
      modules.linear("linear_attn.out_proj", attention, hidden, value);
      modules.keeps({.kind = KvKind::state,
                     .entry = value * key_dim * state_bytes + (kernel - 1) * (2 * key + value) * model.element_bytes});
    } else {
      detail::add_heads(modules, heads);
      detail::add_qk_norm(modules, heads, detail::QkNorm::head);
      detail::keep_heads(modules, heads, 0);
    }
    modules.layer_norms(2);
    if (sparse[static_cast<std::size_t>(l)]) {
      modules.experts(experts);
      modules.shared_experts("mlp.shared_expert", shared);
      modules.plain("mlp.shared_expert_gate", ModuleClass::router, 1, hidden);
    } else {
      if (width == 0) fields.refuse("intermediate_size is missing", "the size of dense layers");
      modules.mlp(width, true);
    }
  }
  modules.ends(fields.flag("tie_word_embeddings", false));
}

SLUICE_READERS_INLINE void hf_kimi_linear(HfFields& fields, HfModules& modules, ModelDescription& model) {
  constexpr ModuleClass attention = ModuleClass::attention;
  const int layers = fields.size("num_hidden_layers"), hidden = model.hidden;
  HfLatent latent = hf_latent_sizes(fields);
  latent.gate = fields.flag("mla_use_output_gate", false);
  const nlohmann::json* inner = fields.object("linear_attn_config");
  if (inner == nullptr) return fields.refuse("linear_attn_config is missing", "which layers have delta attention");
  HfFields delta(*inner, fields.where() + ": linear_attn_config");
  const int heads = delta.size("num_heads"), dim = delta.size("head_dim"),
            kernel = delta.size("short_conv_kernel_size");
  const bool full_rank = delta.flag("use_full_rank_gate", false);
  delta.known({"gate_lower_bound"});
  std::vector<int> kinds(static_cast<std::size_t>(layers), 0); // lists count layers from 1
  for (const char* name : {"kda_layers", "full_attn_layers"})
    for (const int l : delta.numbers(name, 1))
      if (l <= layers) kinds[static_cast<std::size_t>(l - 1)] += name[0] == 'k' ? 1 : 2;
  for (const int kind : kinds)
    if (kind != 1 && kind != 2) delta.refuse("a layer is in neither list, or in both", "each layer in one list");
  delta.check_all_read();
  if (!delta.status()) return fields.keep(delta.status().error());
  const std::vector<bool> sparse = hf_sparse_layers(fields, layers);
  HfExperts experts;
  experts.each = "block_sparse_moe.experts";
  experts.router = "block_sparse_moe.gate";
  experts.letters = true;
  experts.count = fields.size("num_experts");
  experts.per_token = fields.size({"num_experts_per_token", "num_experts_per_tok"});
  experts.width = fields.size("moe_intermediate_size");
  experts.hidden = fields.size_or("routed_expert_hidden_size", 0);
  experts.correction_bytes = 4;
  const bool latent_norm = fields.flag("latent_moe_use_norm", false);
  const int shared = fields.joined(fields.size_or("num_shared_experts", 0), experts.width);
  const int width = fields.size("intermediate_size");
  // Kimi-K3 attends to the residuals of earlier blocks of layers; the config has no size of what that adds.
  fields.known({"attn_res_block_size"});
  const std::int64_t projected = std::int64_t{heads} * dim;
  for (int l = 0; l < layers; ++l) {
    modules.begin_layer();
    if (kinds[static_cast<std::size_t>(l)] == 2) {
      hf_latent_attention(modules, latent, false);
    } else {
      LayerDescription& layer = modules.layer();
      layer.attention = AttentionKind::gated_delta;
      layer.heads = layer.kv_heads = heads;
      layer.head_dim = layer.value_dim = dim;
      for (const std::string name : {"q", "k", "v"}) {
        modules.linear("self_attn." + name + "_proj", attention, projected, hidden);
        modules.plain("self_attn." + name + "_conv1d", attention, projected, kernel);
      }
      modules.norm("self_attn.A_log", heads, 4);
      modules.norm("self_attn.dt_bias", projected, 4);
      modules.linear("self_attn.f_a_proj", attention, dim, hidden);
      modules.linear("self_attn.f_b_proj", attention, projected, dim);
      modules.linear("self_attn.b_proj", attention, heads, hidden);
      if (full_rank) {
        modules.linear("self_attn.g_proj", attention, projected, hidden);
      } else {
        modules.linear("self_attn.g_a_proj", attention, dim, hidden);
        modules.linear("self_attn.g_b_proj", attention, projected, dim);
      }
      modules.norm("self_attn.o_norm", dim);
      modules.linear("self_attn.o_proj", attention, hidden, projected);
      modules.keeps(
          {.kind = KvKind::state, .entry = projected * dim * 4 + (kernel - 1) * 3 * projected * model.element_bytes});
    }
    modules.layer_norms(2);
    if (!sparse[static_cast<std::size_t>(l)]) {
      modules.mlp(width, true);
      continue;
    }
    modules.experts(experts);
    if (experts.hidden > 0) { // experts work in a narrower space, behind a projection into it and one back
      modules.plain("block_sparse_moe.latent_down_proj", ModuleClass::shared_experts, experts.hidden, hidden);
      modules.plain("block_sparse_moe.latent_up_proj", ModuleClass::shared_experts, hidden, experts.hidden);
      if (latent_norm) modules.norm("block_sparse_moe.latent_norm", experts.hidden);
    }
    modules.shared_experts("block_sparse_moe.shared_experts", shared);
  }
  modules.ends(fields.flag("tie_word_embeddings", false));
}

SLUICE_READERS_INLINE void hf_granite_moe(HfFields& fields, HfModules& modules, ModelDescription& model,
                                          std::string_view type) {
  const int layers = fields.size("num_hidden_layers"), hidden = model.hidden;
  const bool hybrid = type == "granitemoehybrid";
  const std::vector<std::string> kinds =
      hybrid ? fields.texts("layer_types") : std::vector<std::string>(static_cast<std::size_t>(layers), "attention");
  if (kinds.size() != static_cast<std::size_t>(layers))
    return fields.refuse("layer_types is missing or has another length", std::to_string(layers) + " entries");
  detail::Heads heads = detail::heads_of(fields, hidden);
  heads.qkv_bias = heads.output_bias = fields.flag("attention_bias", false);
  detail::Mamba mamba;
  if (hybrid) {
    mamba = {fields.size("mamba_n_heads"), fields.size("mamba_d_head"), fields.size("mamba_n_groups"),
             fields.size("mamba_d_state"), fields.size("mamba_d_conv")};
    mamba.conv_bias = fields.flag("mamba_conv_bias", true);
    mamba.state_bytes = model.element_bytes;
    fields.known({"mamba_expand", "mamba_chunk_size", "normalization_function"});
  }
  const int experts = fields.size_or("num_local_experts", 0), per_token = fields.size_or("num_experts_per_tok", 0);
  const int width = fields.size("intermediate_size");
  const int shared = type == "granitemoe" ? 0 : fields.size("shared_intermediate_size");
  if (!hybrid && experts == 0) fields.refuse("num_local_experts is missing", "a number of experts");
  for (const std::string& kind : kinds) {
    modules.begin_layer();
    if (kind == "mamba") {
      detail::add_mamba(modules, mamba, model.element_bytes, "mamba");
    } else if (kind == "attention") {
      detail::add_heads(modules, heads);
      detail::keep_heads(modules, heads, 0);
    } else {
      fields.refuse("layer_types holds '" + excerpt(kind) + "'", "mamba or attention");
    }
    modules.layer_norms(2);
    if (experts > 0) {
      LayerDescription& layer = modules.layer();
      layer.experts = experts;
      layer.per_token = per_token;
      layer.expert_mlp = width;
      layer.expert_hidden = hidden;
      if (per_token < 1 || per_token > experts)
        fields.refuse("num_experts_per_tok is no part of the experts", "1 or more");
      modules.plain("block_sparse_moe.router.layer", ModuleClass::router, experts, hidden);
      for (const bool in : {true, false}) {
        Module& module =
            in ? modules.linear("block_sparse_moe.input_linear", ModuleClass::routed_experts, 2 * width, hidden)
               : modules.linear("block_sparse_moe.output_linear", ModuleClass::routed_experts, hidden, width);
        module.count = experts;
        module.active = per_token;
      }
    }
    if (shared == 0) continue;
    modules.layer().shared_experts = shared;
    modules.linear("shared_mlp.input_linear", ModuleClass::shared_experts, 2 * std::int64_t{shared}, hidden);
    modules.linear("shared_mlp.output_linear", ModuleClass::shared_experts, hidden, shared);
  }
  modules.ends(fields.flag("tie_word_embeddings", false));
}

SLUICE_READERS_INLINE void hf_nemotron_h(HfFields& fields, HfModules& modules, ModelDescription& model) {
  const int hidden = model.hidden;
  std::vector<std::string> kinds = fields.texts("layers_block_type");
  if (kinds.empty()) {
    for (const char letter : fields.text("hybrid_override_pattern", "")) {
      if (letter != 'M' && letter != '*' && letter != 'E' && letter != '-')
        fields.refuse(std::string{"hybrid_override_pattern holds '"} + letter + "'", "M, *, E or -");
      kinds.push_back(letter == 'M' ? "mamba" : letter == '*' ? "attention" : letter == 'E' ? "moe" : "mlp");
    }
  }
  fields.known({"hybrid_override_pattern", "layers_block_type"});
  if (kinds.empty()) fields.refuse("hybrid_override_pattern and layers_block_type are missing", "one of them");
  if (const int layers = fields.size_or("num_hidden_layers", static_cast<int>(kinds.size()));
      static_cast<std::size_t>(layers) != kinds.size())
    return fields.refuse("num_hidden_layers is " + std::to_string(layers), std::to_string(kinds.size()));
  if (kinds.size() > static_cast<std::size_t>(max_layers))
    return fields.refuse("it has too many layers", std::to_string(max_layers));
  const bool bias = fields.flag("use_bias", false), projection_bias = fields.flag("mamba_proj_bias", false);
  if (bias || projection_bias) fields.refuse("use_bias or mamba_proj_bias is true", "false");
  const bool mlp_bias = fields.flag("mlp_bias", false);
  detail::Mamba mamba{fields.size("mamba_num_heads"), fields.size("mamba_head_dim"), fields.size("n_groups"),
                      fields.size("ssm_state_size"), fields.size("conv_kernel")};
  mamba.conv_bias = fields.flag("use_conv_bias", true);
  mamba.state_bytes = detail::state_element_bytes(fields, "mamba_ssm_cache_dtype", model.element_bytes);
  detail::Heads heads = detail::heads_of(fields, hidden);
  heads.qkv_bias = heads.output_bias = fields.flag("attention_bias", false);
  if (!fields.has("head_dim") && !fields.has("attention_head_dim")) fields.refuse("head_dim is missing", "a head size");
  if (fields.has("sliding_window")) fields.refuse("sliding_window is set", "null");
  bool any_experts = false;
  for (const std::string& kind : kinds) any_experts = any_experts || kind == "moe";
  HfExperts experts;
  int shared = 0;
  if (any_experts) {
    experts = usual_experts(fields, "n_routed_experts");
    experts.each = "mixer.experts";
    experts.router = "mixer.gate";
    experts.gated = false;
    experts.hidden = fields.size_or("moe_latent_size", 0);
    experts.correction_bytes = 4;
    shared = fields.size("moe_shared_expert_intermediate_size");
    if (fields.size_or("n_shared_experts", 1) != 1) fields.refuse("n_shared_experts is not 1", "1");
  }
  const int width = fields.size_or("intermediate_size", 0);
  fields.known({"time_step_rank", "chunk_size"}); // chunks of the scan, which no state keeps
  for (const std::string& kind : kinds) {
    modules.begin_layer();
    modules.norm("norm", hidden);
    if (kind == "mamba") {
      detail::add_mamba(modules, mamba, model.element_bytes, "mixer");
    } else if (kind == "attention") {
      detail::add_heads(modules, heads, "mixer");
      detail::keep_heads(modules, heads, 0);
    } else if (kind == "moe") {
      modules.experts(experts);
      if (experts.hidden > 0) {
        modules.linear("mixer.fc1_latent_proj", ModuleClass::shared_experts, experts.hidden, hidden);
        modules.linear("mixer.fc2_latent_proj", ModuleClass::shared_experts, hidden, experts.hidden);
      }
      modules.shared_experts("mixer.shared_experts", shared, false);
    } else if (kind == "mlp") {
      if (width == 0) fields.refuse("intermediate_size is missing", "the size of an MLP");
      modules.mlp(width, false, mlp_bias, "mixer");
    } else {
      fields.refuse("layers_block_type holds '" + excerpt(kind) + "'", "mamba, attention, moe or mlp");
    }
  }
  modules.ends(fields.flag("tie_word_embeddings", false), "embeddings");
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// DecoderForm: what distinguishes model types whose decoders have one form.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/nlohmann/hf_fields.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::detail {

enum class QkNorm : std::uint8_t {
  none,
  head, ///< one vector of head size for all query heads, one for all key heads
  layer ///< as wide as the projections
};

/// How a decoder's class in transformers uses `sliding_window`.
enum class WindowUse : std::uint8_t {
  never,
  listed, ///< in the layers that `layer_types` names
  all,    ///< in every layer, if it is set
  upper   ///< with `use_sliding_window`, in the layers from `max_window_layers` on, or by `layer_types`
};

/// Sources: the classes of Hugging Face's transformers of these names, or those that a checkpoint brings.
struct DecoderForm {
  std::string_view type;
  bool kv_as_heads = false;  ///< without `num_key_value_heads` the class has as many as heads; else a number of its own
  bool own_head_dim = false; ///< without `head_dim` the class has a number of its own; else that follows from others
  bool biased = false;       ///< all matrices of a layer have biases, unless `use_bias` is false
  bool qkv_bias = false;     ///< always; else by `attention_bias`
  bool output_bias = false;  ///< the output projection has a bias where Q, K and V have one
  QkNorm norm = QkNorm::none;
  bool norm_by_flag = false; ///< `use_qk_norm` says whether there is `norm`; absent: no
  int norms = 2;             ///< of the hidden size, per layer
  bool norm_bias = false;    ///< these and the last norm have a bias
  bool gated = true;
  bool gate_up_fused = false;
  bool qkv_fused = false;
  bool tied = false;                     ///< the class's default
  bool head_bias = false;                ///< of the output head, always; else by `lm_head_bias`
  bool sparse = false;                   ///< has experts
  bool letters = false;                  ///< experts are w1, w2 and w3 of block_sparse_moe
  bool shared_gate = false;              ///< a gate in front of the shared expert (Qwen)
  int correction_bytes = 0;              ///< of the router's correction bias; 0: none
  const char* correction_flag = nullptr; ///< the field that says whether there is one; none: always
  int router_bytes = 0;                  ///< of the router's elements; 0: the config's data type
  WindowUse window = WindowUse::never;
  int pattern = 0; ///< without `layer_types`, every how many-th layer attends to all tokens
};

inline const DecoderForm* find_decoder_form(std::string_view type) {
  static constexpr DecoderForm forms[] = {
      {.type = "llama", .kv_as_heads = true, .output_bias = true},
      {.type = "arcee", .kv_as_heads = true, .output_bias = true, .gated = false},
      {.type = "mistral", .window = WindowUse::all},
      {.type = "ministral", .window = WindowUse::listed},
      {.type = "ministral3", .window = WindowUse::all},
      {.type = "mixtral", .sparse = true, .letters = true, .window = WindowUse::all},
      {.type = "qwen2", .qkv_bias = true, .window = WindowUse::upper},
      {.type = "qwen2_vl", .qkv_bias = true, .window = WindowUse::upper},
      {.type = "qwen2_vl_text", .qkv_bias = true, .window = WindowUse::upper},
      {.type = "qwen2_5_vl", .qkv_bias = true, .window = WindowUse::upper},
      {.type = "qwen2_5_vl_text", .qkv_bias = true, .window = WindowUse::upper},
      {.type = "qwen2_moe", .qkv_bias = true, .sparse = true, .shared_gate = true},
      {.type = "qwen3", .own_head_dim = true, .output_bias = true, .norm = QkNorm::head, .window = WindowUse::upper},
      {.type = "qwen3_vl_text", .own_head_dim = true, .output_bias = true, .norm = QkNorm::head},
      {.type = "qwen3_moe", .output_bias = true, .norm = QkNorm::head, .sparse = true},
      {.type = "qwen3_vl_moe_text", .own_head_dim = true, .output_bias = true, .norm = QkNorm::head, .sparse = true},
      {.type = "mimo"},
      {.type = "minimax_m2",
       .norm = QkNorm::layer,
       .sparse = true,
       .letters = true,
       .correction_bytes = 4,
       .correction_flag = "use_routing_bias",
       .router_bytes = 4},
      {.type = "phi",
       .kv_as_heads = true,
       .biased = true,
       .output_bias = true,
       .norms = 1,
       .norm_bias = true,
       .gated = false,
       .head_bias = true},
      {.type = "phi3", .kv_as_heads = true, .gate_up_fused = true, .qkv_fused = true, .window = WindowUse::all},
      {.type = "phimoe",
       .output_bias = true,
       .norm_bias = true,
       .sparse = true,
       .letters = true,
       .window = WindowUse::all},
      {.type = "olmo2", .kv_as_heads = true, .output_bias = true, .norm = QkNorm::layer},
      {.type = "olmo3", .kv_as_heads = true, .output_bias = true, .norm = QkNorm::layer, .window = WindowUse::listed},
      {.type = "olmoe", .kv_as_heads = true, .output_bias = true, .norm = QkNorm::layer, .sparse = true},
      {.type = "granite", .kv_as_heads = true, .output_bias = true},
      {.type = "gemma", .own_head_dim = true, .output_bias = true, .tied = true},
      {.type = "glm", .own_head_dim = true, .gate_up_fused = true},
      {.type = "glm4", .own_head_dim = true, .norms = 4, .gate_up_fused = true},
      {.type = "glm4v_text", .norms = 4, .gate_up_fused = true},
      {.type = "glm4_moe", .norm = QkNorm::head, .norm_by_flag = true, .sparse = true, .correction_bytes = 4},
      {.type = "glm4v_moe_text", .norm = QkNorm::head, .norm_by_flag = true, .sparse = true, .correction_bytes = 4},
      {.type = "deepseek", .kv_as_heads = true, .sparse = true},
      {.type = "dots1",
       .output_bias = true,
       .norm = QkNorm::head,
       .sparse = true,
       .correction_bytes = 4,
       .window = WindowUse::listed},
      {.type = "bailing_moe",
       .norm = QkNorm::head,
       .norm_by_flag = true,
       .qkv_fused = true,
       .sparse = true,
       .correction_bytes = 4,
       .correction_flag = "moe_router_enable_expert_bias"},
      {.type = "smollm3", .output_bias = true, .tied = true, .window = WindowUse::listed},
      {.type = "exaone4", .norm = QkNorm::head, .window = WindowUse::listed},
      {.type = "internlm2", .kv_as_heads = true, .qkv_fused = true},
      {.type = "internlm3"},
      {.type = "hunyuan_v1_dense", .kv_as_heads = true, .output_bias = true, .norm = QkNorm::head},
      {.type = "cohere",
       .kv_as_heads = true,
       .output_bias = true,
       .norm = QkNorm::layer,
       .norm_by_flag = true,
       .norms = 1,
       .tied = true},
      {.type = "cohere2", .output_bias = true, .norms = 1, .tied = true, .window = WindowUse::listed, .pattern = 4},
      {.type = "nemotron", .kv_as_heads = true, .output_bias = true, .norm_bias = true, .gated = false},
      {.type = "stablelm", .norm_bias = true},
      {.type = "gpt_neox",
       .kv_as_heads = true,
       .biased = true,
       .output_bias = true,
       .norm_bias = true,
       .gated = false,
       .qkv_fused = true},
      {.type = "starcoder2",
       .biased = true,
       .output_bias = true,
       .norm_bias = true,
       .gated = false,
       .tied = true,
       .window = WindowUse::all},
      {.type = "ernie4_5", .own_head_dim = true, .tied = true},
      {.type = "ernie4_5_moe", .tied = true, .sparse = true, .correction_bytes = 4, .router_bytes = 4},
      {.type = "seed_oss", .own_head_dim = true},
      {.type = "gpt_oss", .own_head_dim = true, .output_bias = true, .sparse = true, .window = WindowUse::listed},
      {.type = "step3p7",
       .norm = QkNorm::head,
       .sparse = true,
       .correction_bytes = 4,
       .correction_flag = "use_moe_router_bias",
       .router_bytes = 4,
       .window = WindowUse::listed},
  };
  for (const DecoderForm& form : forms)
    if (form.type == type) return &form;
  return nullptr;
}

/// Fields that only one type's configs have and that change no size, or only if they differ from what is counted. A
/// switch that is true and not named here is refused with all fields that nobody read.
inline void know_form_fields(HfFields& fields, std::string_view type) {
  const auto must_be = [&](const char* name, std::string_view value) {
    if (const std::string said = fields.text(name, std::string{value}); said != value)
      fields.refuse(std::string{name} + " is '" + excerpt(said) + "'", std::string{value});
  };
  const auto must_be_true = [&](const char* name) {
    if (!fields.flag(name, true)) fields.refuse(std::string{name} + " is false", "true");
  };
  if (type == "minimax_m2") {
    must_be("qk_norm_type", "per_layer");
    // These are of layers and experts that this type no longer has, or scale residuals by one.
    fields.known({"mlp_intermediate_size", "shared_moe_mode", "layernorm_full_attention_alpha",
                  "layernorm_full_attention_beta", "layernorm_linear_attention_alpha",
                  "layernorm_linear_attention_beta", "layernorm_mlp_alpha", "layernorm_mlp_beta"});
  } else if (type == "cohere" || type == "cohere2") {
    for (const char* name : {"use_embedding_sharing", "use_gated_activation", "use_parallel_block"}) must_be_true(name);
    fields.known({"use_parallel_embedding", "order_of_interleaved_layers", "layer_switch", "_sliding_window_pattern"});
  } else if (type == "exaone4") {
    fields.known({"sliding_window_pattern"}); // layer_types says it by layer
  } else if (type == "bailing_moe") {
    for (const char* name : {"moe_router_enable_shared_expert", "use_rmsnorm"}) must_be_true(name);
    fields.known({"score_function", "router_dtype"});
    // The same type names two classes. The later one, which may have this bias, has a norm unless the config says no.
    if (fields.flag("moe_router_enable_expert_bias", false) && !fields.has("use_qk_norm"))
      fields.refuse("use_qk_norm is missing", "true or false");
  } else if (type == "hunyuan_v1_dense") {
    must_be("norm_type", "rms");
    fields.known({"attention_head_dim", "cla_share_factor", "dense_list", "im_start_id", "im_newline_id", "im_end_id",
                  "text_start_id", "text_end_id", "mask_init_id", "pad_id", "org_vocab_size", "pool_type",
                  "use_rotary_pos_emb"});
  } else if (type == "gpt_neox") {
    must_be_true("attention_bias");
    fields.known({"use_parallel_residual"}); // both norms either way
  } else if (type == "starcoder2") {
    must_be("norm_type", "layer_norm");
    must_be("mlp_type", "default");
    fields.known(
        {"activation_function", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "scale_attn_weights"});
  } else if (type == "ernie4_5" || type == "ernie4_5_moe") {
    fields.known({"compression_ratio", "moe_capacity", "moe_gate", "moe_gate_act", "moe_use_aux_free"});
  }
}

} // namespace sluice::detail

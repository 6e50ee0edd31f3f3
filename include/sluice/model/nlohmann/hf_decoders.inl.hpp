// SPDX-License-Identifier: Apache-2.0
// Decoders: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/nlohmann/hf_decoders.hpp"
#include "sluice/model/nlohmann/hf_forms.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <string>

namespace sluice::detail {

/// Q, K, V and output projections of `heads` and `kv_heads` heads.
struct Heads {
  int heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  bool qkv_bias = false, output_bias = false;
  bool gate = false;      ///< Q has a gate on the output beside it
  bool fused = false;     ///< one matrix for Q, K and V
  bool no_values = false; ///< K is V too; both are kept (Gemma 4)
};

inline Heads heads_of(HfFields& fields, int hidden) {
  Heads heads;
  heads.heads = fields.size("num_attention_heads");
  heads.kv_heads = fields.size_or("num_key_value_heads", heads.heads);
  heads.head_dim = fields.size_or({"head_dim", "attention_head_dim"}, 0);
  if (heads.head_dim == 0) {
    if (hidden % heads.heads != 0)
      fields.refuse("hidden_size " + std::to_string(hidden) + " is not a multiple of num_attention_heads " +
                        std::to_string(heads.heads),
                    "a multiple, or a head_dim");
    heads.head_dim = hidden / heads.heads;
  }
  heads.value_dim = heads.head_dim;
  if (heads.kv_heads == 0 || heads.heads % heads.kv_heads != 0)
    fields.refuse(std::to_string(heads.heads) + " heads cannot share " + std::to_string(heads.kv_heads) + " KV heads",
                  "a number of heads that the KV heads divide");
  return heads;
}

inline void add_heads(HfModules& modules, const Heads& of, const std::string& at = "self_attn") {
  const std::int64_t queries = std::int64_t{of.heads} * of.head_dim, keys = std::int64_t{of.kv_heads} * of.head_dim;
  const std::int64_t values = std::int64_t{of.kv_heads} * of.value_dim;
  const std::int64_t outputs = std::int64_t{of.heads} * of.value_dim;
  constexpr ModuleClass attention = ModuleClass::attention;
  LayerDescription& layer = modules.layer();
  layer.attention = AttentionKind::full;
  layer.heads = of.heads;
  layer.kv_heads = of.kv_heads;
  layer.head_dim = of.head_dim;
  layer.value_dim = of.value_dim;
  const int hidden = modules.hidden();
  if (of.fused) {
    modules.projection(at + ".qkv_proj", attention, queries + keys + values, hidden, of.qkv_bias);
  } else {
    modules.projection(at + ".q_proj", attention, of.gate ? 2 * queries : queries, hidden, of.qkv_bias);
    modules.projection(at + ".k_proj", attention, keys, hidden, of.qkv_bias);
    if (!of.no_values) modules.projection(at + ".v_proj", attention, values, hidden, of.qkv_bias);
  }
  modules.projection(at + ".o_proj", attention, hidden, outputs, of.output_bias);
}

inline void add_qk_norm(HfModules& modules, const Heads& of, QkNorm kind) {
  if (kind == QkNorm::none) return;
  const bool head = kind == QkNorm::head;
  modules.norm("self_attn.q_norm", std::int64_t{head ? 1 : of.heads} * of.head_dim);
  modules.norm("self_attn.k_norm", std::int64_t{head ? 1 : of.kv_heads} * of.head_dim);
}

/// A layer that attends to a window, if `window` is one; the description's kind and the KV rule.
inline void keep_heads(HfModules& modules, const Heads& of, int window, KvKind windowed = KvKind::sliding) {
  if (window > 0)
    modules.layer().attention = windowed == KvKind::chunked ? AttentionKind::chunked : AttentionKind::sliding;
  modules.keeps_heads(of.kv_heads, of.head_dim, of.value_dim, window, windowed);
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE std::vector<bool> hf_sparse_layers(HfFields& fields, int layers) {
  std::vector<bool> sparse(static_cast<std::size_t>(layers), true);
  const auto checked = [&](std::size_t size, const char* name) {
    if (size == sparse.size()) return true;
    fields.refuse(std::string{name} + " has " + std::to_string(size) + " entries",
                  std::to_string(layers) + ", one for each layer");
    return false;
  };
  bool listed = false;
  if (const std::vector<std::string> types = fields.texts("mlp_layer_types");
      !types.empty() && checked(types.size(), "mlp_layer_types")) {
    listed = true;
    for (std::size_t layer = 0; layer < types.size(); ++layer) {
      if (types[layer] != "dense" && types[layer] != "sparse")
        fields.refuse("mlp_layer_types holds '" + excerpt(types[layer]) + "'", "dense or sparse");
      sparse[layer] = types[layer] == "sparse";
    }
  }
  if (const nlohmann::json* often = fields.value("moe_layer_freq"); often != nullptr && often->is_array()) {
    const std::vector<int> flags = fields.numbers("moe_layer_freq");
    if (checked(flags.size(), "moe_layer_freq"))
      for (std::size_t layer = 0; layer < flags.size(); ++layer) sparse[layer] = flags[layer] != 0;
    listed = true;
  } else if (often != nullptr && fields.size("moe_layer_freq") != 1) {
    fields.refuse("moe_layer_freq is " + often->dump(), "1, or a list");
  }
  const int dense = fields.size_or("first_k_dense_replace", 0);
  for (int layer = 0; layer < dense && layer < layers && !listed; ++layer)
    sparse[static_cast<std::size_t>(layer)] = false;
  if (const int step = fields.size_or("decoder_sparse_step", 1); step != 1 && !listed)
    for (int layer = 0; layer < layers; ++layer)
      if (step == 0 || (layer + 1) % step != 0) sparse[static_cast<std::size_t>(layer)] = false;
  // ERNIE 4.5: the first and the last layer with experts, and every how many-th of them.
  const int first = fields.size_or("moe_layer_start_index", 0), interval = fields.size_or("moe_layer_interval", 1);
  const nlohmann::json* end = fields.value("moe_layer_end_index");
  const int last = end == nullptr || *end == -1 ? layers - 1 : fields.size_or("moe_layer_end_index", 0);
  for (int layer = 0; layer < layers; ++layer)
    if (layer < first || layer > last || interval == 0 || (layer + 1) % interval != 0)
      sparse[static_cast<std::size_t>(layer)] = false;
  for (const int layer : fields.numbers("mlp_only_layers"))
    if (layer < layers) sparse[static_cast<std::size_t>(layer)] = false;
  return sparse;
}

SLUICE_READERS_INLINE std::vector<int> hf_windows(HfFields& fields, int layers, int window, int pattern) {
  std::vector<int> windows(static_cast<std::size_t>(layers), 0);
  const std::vector<std::string> types = fields.texts("layer_types");
  if (types.empty()) {
    for (int layer = 0; layer < layers && pattern > 0; ++layer)
      if ((layer + 1) % pattern != 0) windows[static_cast<std::size_t>(layer)] = window;
    if (pattern > 0 && window == 0) fields.refuse("sliding_window is missing", "the tokens of a window");
    return windows;
  }
  if (types.size() != windows.size()) {
    fields.refuse("layer_types has " + std::to_string(types.size()) + " entries", std::to_string(layers));
    return windows;
  }
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    if (types[layer] == "sliding_attention" || types[layer] == "chunked_attention") {
      if (window == 0)
        fields.refuse("a layer slides, and there is no window", "sliding_window or attention_chunk_size");
      windows[layer] = window;
    } else if (types[layer] != "full_attention") {
      fields.refuse("layer_types holds '" + excerpt(types[layer]) + "'", "full_attention or sliding_attention");
    }
  }
  return windows;
}

SLUICE_READERS_INLINE std::vector<int> hf_decoder_windows(HfFields& fields, int layers, std::string_view type) {
  using detail::WindowUse;
  const detail::DecoderForm& form = *detail::find_decoder_form(type);
  const WindowUse use = form.window;
  const bool on = fields.flag("use_sliding_window", type.rfind("qwen", 0) != 0 && type != "mimo");
  // MistralConfig's default, and Qwen2Config's and Qwen3Config's; null is written where there is none.
  const bool usual = type == "mistral" || (use == WindowUse::upper && fields.flag("use_sliding_window", false));
  const int otherwise = usual && !fields.json().contains("sliding_window") ? 4096 : 0;
  const int said = fields.size_or("sliding_window", otherwise, HfFields::most);
  const int window = on ? said : 0;
  const int longest = fields.size_or("max_position_embeddings", 0, HfFields::most);
  if (use == WindowUse::never && window > 0 && (longest == 0 || window < longest)) // a longer one changes nothing
    fields.refuse("sliding_window is " + std::to_string(window),
                  type.rfind("qwen", 0) == 0 || type == "mimo"
                      ? "use_sliding_window false: which layers slide depends on the class's version"
                      : "null: the class of " + std::string{type} + " has no window");
  if (fields.has("layer_types") || form.pattern > 0)
    return hf_windows(fields, layers, use == WindowUse::never ? 0 : window,
                      form.pattern > 0 ? fields.size_or("sliding_window_pattern", form.pattern) : 0);
  std::vector<int> windows(static_cast<std::size_t>(layers), use == WindowUse::all ? window : 0);
  if (use == WindowUse::listed && window > 0)
    fields.refuse("layer_types is missing", "the attention of each layer, beside a sliding_window");
  if (use == WindowUse::upper && window > 0)
    for (int layer = fields.size_or("max_window_layers", 28); layer < layers; ++layer) // the classes' default
      windows[static_cast<std::size_t>(layer)] = window;
  return windows;
}

SLUICE_READERS_INLINE bool hf_knows_decoder(std::string_view type) {
  return detail::find_decoder_form(type) != nullptr;
}

SLUICE_READERS_INLINE void hf_decoder(HfFields& fields, HfModules& modules, ModelDescription& model,
                                      std::string_view type) {
  const detail::DecoderForm& form = *detail::find_decoder_form(type);
  const int layers = fields.size("num_hidden_layers");
  const auto stated = [&](const char* name) { // not in every config that a class writes, such as a part of another
    if (!fields.json().contains(name)) fields.refuse(std::string{name} + " is missing", "a value, or null");
  };
  if (!form.kv_as_heads) stated("num_key_value_heads");
  if (form.own_head_dim) stated("head_dim");
  if (type == "gpt_oss" || type == "seed_oss") stated("attention_bias"); // the class's default is true
  if (type == "exaone4") stated("sliding_window");                       // the class's default is a window
  detail::Heads heads = detail::heads_of(fields, model.hidden);
  const bool biased = form.biased && fields.flag("use_bias", true);
  heads.qkv_bias = form.qkv_bias || biased;
  for (const char* name : {"attention_bias", "qkv_bias", "use_qkv_bias"})
    if (fields.flag(name, false)) heads.qkv_bias = true;
  heads.output_bias = form.output_bias && heads.qkv_bias;
  heads.fused = form.qkv_fused;
  if (fields.flag("attention_out_bias", false)) heads.output_bias = true; // Seed-OSS
  const bool mlp_bias = fields.flag("mlp_bias", biased);
  detail::know_form_fields(fields, type);
  detail::QkNorm norm = form.norm;
  const bool normed = fields.flag("use_qk_norm", norm != detail::QkNorm::none && !form.norm_by_flag);
  if (form.norm_by_flag && !normed)
    norm = detail::QkNorm::none;
  else if (normed != (norm != detail::QkNorm::none))
    fields.refuse(std::string{"use_qk_norm is "} + (normed ? "true" : "false"), "what the model type has");
  const std::vector<int> windows = hf_decoder_windows(fields, layers, type);
  if (!fields.has("layer_types") && (type == "gpt_oss" || type == "ministral" || type == "olmo3" || type == "step3p7"))
    fields.refuse("layer_types is missing", "the attention of each layer");
  if (const std::vector<int> kinds = fields.numbers("attn_type_list"); !kinds.empty()) {
    for (const int kind : kinds)
      if (kind != 1) fields.refuse("attn_type_list holds " + std::to_string(kind), "1: softmax attention");
  }
  const bool experts = form.sparse;
  const int width = !experts || fields.has("intermediate_size") ? fields.size("intermediate_size") : 0;
  std::vector<bool> sparse(static_cast<std::size_t>(layers), false);
  HfExperts routed;
  int shared = 0;
  if (experts) {
    sparse = hf_sparse_layers(fields, layers);
    if (type == "ernie4_5_moe" && !fields.has("moe_layer_start_index"))
      fields.refuse("moe_layer_start_index is missing", "the first layer with experts");
    routed.count = fields.size({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"});
    routed.per_token = fields.size({"num_experts_per_tok", "num_experts_per_token", "moe_k"});
    fields.known({"experts_per_token", "num_local_experts"});
    routed.width = form.letters || type == "gpt_oss" || type == "olmoe" ? width : fields.size("moe_intermediate_size");
    routed.letters = form.letters;
    if (form.letters) routed.each = "block_sparse_moe.experts", routed.router = "block_sparse_moe.gate";
    routed.correction_bytes = form.correction_bytes;
    routed.router_bytes = form.router_bytes;
    if (form.correction_flag != nullptr && !fields.flag(form.correction_flag, false)) routed.correction_bytes = 0;
    routed.biased = routed.fused = type == "gpt_oss";
    if (type == "gpt_oss") routed.router = "mlp.router";
    shared = fields.size_or({"shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim",
                             "moe_shared_expert_intermediate_size"},
                            0);
    const int number =
        fields.size_or({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}, shared > 0 ? 1 : 0);
    shared = fields.joined(number, shared == 0 ? routed.width : shared);
  }
  for (int l = 0; l < layers; ++l) {
    modules.begin_layer();
    detail::add_heads(modules, heads);
    detail::add_qk_norm(modules, heads, norm);
    if (type == "gpt_oss") modules.norm("self_attn.sinks", heads.heads);
    detail::keep_heads(modules, heads, windows[static_cast<std::size_t>(l)]);
    modules.layer_norms(form.norms, form.norm_bias);
    if (!sparse[static_cast<std::size_t>(l)]) {
      if (width == 0) fields.refuse("intermediate_size is missing", "the size of dense layers");
      if (form.gate_up_fused) {
        modules.layer().mlp = width;
        modules.linear("mlp.gate_up_proj", ModuleClass::dense_mlp, 2 * std::int64_t{width}, model.hidden);
        modules.linear("mlp.down_proj", ModuleClass::dense_mlp, model.hidden, width);
      } else {
        modules.mlp(width, form.gated, mlp_bias);
      }
      continue;
    }
    modules.experts(routed);
    modules.shared_experts(form.shared_gate ? "mlp.shared_expert" : "mlp.shared_experts", shared);
    if (form.shared_gate && shared > 0) modules.plain("mlp.shared_expert_gate", ModuleClass::router, 1, model.hidden);
  }
  modules.ends(fields.flag("tie_word_embeddings", form.tied));
  if (form.norm_bias) modules.norm("norm.bias", model.hidden);
  if (fields.flag("lm_head_bias", form.head_bias)) modules.norm("lm_head.bias", model.vocabulary);
}

SLUICE_READERS_INLINE void hf_gemma(HfFields& fields, HfModules& modules, ModelDescription& model,
                                    std::string_view type) {
  const bool two = type == "gemma2", three = type == "gemma3_text", four = type == "gemma4_text";
  const int layers = fields.size("num_hidden_layers");
  detail::Heads local;
  // Published configs of Gemma 3 leave out what equals the class's defaults.
  local.heads = three ? fields.size_or("num_attention_heads", 8) : fields.size("num_attention_heads");
  local.kv_heads = three ? fields.size_or("num_key_value_heads", 4) : fields.size("num_key_value_heads");
  local.head_dim = local.value_dim = three ? fields.size_or("head_dim", 256) : fields.size("head_dim");
  const int pattern = fields.has("layer_types") || four ? 0 : two ? 2 : fields.size_or("sliding_window_pattern", 6);
  if (four && !fields.has("layer_types")) fields.refuse("layer_types is missing", "the attention of each layer");
  const std::vector<int> windows = hf_windows(fields, layers, fields.size("sliding_window"), pattern);
  fields.known({"sliding_window_size", "sliding_window_pattern", "_sliding_window_pattern", "query_pre_attn_scalar",
                "use_bidirectional_attention", "vocab_size_per_layer_input", "hidden_activation"});
  if (fields.flag("attention_bias", false)) fields.refuse("attention_bias is true", "false");
  detail::Heads global = local;
  HfExperts experts;
  if (four) {
    global.head_dim = global.value_dim = fields.size("global_head_dim");
    if (fields.flag("attention_k_eq_v", false)) { // K is V too: no projection of V, but both are kept
      global.no_values = true;
      global.kv_heads = fields.size("num_global_key_value_heads");
    } else {
      fields.known({"num_global_key_value_heads"});
    }
    for (const char* name : {"num_kv_shared_layers", "hidden_size_per_layer_input"})
      if (fields.size_or(name, 0) != 0) fields.refuse(std::string{name} + " is not 0", "0");
    if (fields.flag("use_double_wide_mlp", false)) fields.refuse("use_double_wide_mlp is true", "false");
    if (fields.flag("enable_moe_block", false)) {
      experts.each = "experts";
      experts.router = "router.proj";
      experts.count = fields.size("num_experts");
      experts.per_token = fields.size({"top_k_experts", "num_experts_per_tok"});
      experts.width = fields.size("moe_intermediate_size");
    }
    fields.known({"num_experts", "top_k_experts", "moe_intermediate_size"});
  }
  const int width = fields.size("intermediate_size");
  for (int l = 0; l < layers; ++l) {
    const int window = windows[static_cast<std::size_t>(l)];
    const detail::Heads& heads = window > 0 ? local : global;
    modules.begin_layer();
    detail::add_heads(modules, heads);
    if (!two) detail::add_qk_norm(modules, heads, detail::QkNorm::head);
    detail::keep_heads(modules, heads, window);
    modules.layer_norms(4);
    modules.mlp(width, true);
    if (experts.count == 0) continue;
    // Beside the dense MLP: a router with a scale per input and per expert, and three more norms.
    for (int n = 0; n < 3; ++n) modules.norm("moe_norm_" + std::to_string(n), model.hidden);
    modules.plain("router.scale", ModuleClass::router, model.hidden);
    modules.plain("router.per_expert_scale", ModuleClass::router, experts.count);
    modules.experts(experts);
  }
  modules.ends(fields.flag("tie_word_embeddings", true));
}

SLUICE_READERS_INLINE void hf_llama4(HfFields& fields, HfModules& modules, ModelDescription& model) {
  const int layers = fields.size("num_hidden_layers");
  detail::Heads heads = detail::heads_of(fields, model.hidden);
  heads.qkv_bias = heads.output_bias = fields.flag("attention_bias", false);
  fields.known({"use_qk_norm", "for_llm_compressor", "attn_temperature_tuning", "floor_scale",
                "attn_scale"}); // the norm has no weights
  const int chunk = fields.size("attention_chunk_size");
  // no_rope_layers: 0 where a layer has no rotation and attends to all tokens; by default every fourth.
  std::vector<int> windows(static_cast<std::size_t>(layers), chunk);
  const std::vector<int> rotated = fields.numbers("no_rope_layers");
  const int interval = fields.size_or("no_rope_layer_interval", 4);
  if (fields.has("layer_types")) {
    windows = hf_windows(fields, layers, chunk, 0);
  } else if (!rotated.empty()) {
    if (rotated.size() != windows.size())
      fields.refuse("no_rope_layers has too few or too many entries", "one a layer");
    else
      for (std::size_t l = 0; l < windows.size(); ++l) windows[l] = rotated[l] != 0 ? chunk : 0;
  } else {
    for (int l = 0; l < layers; ++l)
      if (interval > 0 && (l + 1) % interval == 0) windows[static_cast<std::size_t>(l)] = 0;
  }
  const int step = fields.size("interleave_moe_layer_step");
  std::vector<bool> sparse(static_cast<std::size_t>(layers), false);
  const std::vector<int> listed = fields.numbers("moe_layers");
  for (const int l : listed)
    if (l < layers) sparse[static_cast<std::size_t>(l)] = true;
  for (int l = step - 1; l < layers && listed.empty(); l += step) sparse[static_cast<std::size_t>(l)] = true;
  HfExperts experts;
  experts.each = "feed_forward.experts";
  experts.router = "feed_forward.router";
  experts.count = fields.size("num_local_experts");
  experts.per_token = fields.size("num_experts_per_tok");
  experts.width = fields.size("intermediate_size");
  const int dense = fields.size("intermediate_size_mlp");
  for (int l = 0; l < layers; ++l) {
    modules.begin_layer();
    detail::add_heads(modules, heads);
    detail::keep_heads(modules, heads, windows[static_cast<std::size_t>(l)], KvKind::chunked);
    modules.layer_norms(2);
    if (sparse[static_cast<std::size_t>(l)]) {
      modules.experts(experts);
      modules.shared_experts("feed_forward.shared_expert", experts.width);
    } else {
      modules.mlp(dense, true, false, "feed_forward");
    }
  }
  modules.ends(fields.flag("tie_word_embeddings", false));
}

SLUICE_READERS_INLINE void hf_nemotron_nas(HfFields& fields, HfModules& modules, ModelDescription& model) {
  const int layers = fields.size("num_hidden_layers");
  fields.known({"num_key_value_heads", "intermediate_size", "mlp_bias"});
  const nlohmann::json* blocks = fields.value("block_configs");
  if (blocks == nullptr || !blocks->is_array() || blocks->size() != static_cast<std::size_t>(layers))
    return fields.refuse("block_configs is missing or has another length", std::to_string(layers) + " blocks");
  const int heads = fields.size("num_attention_heads");
  const int head_dim = fields.size_or("head_dim", 0) > 0 ? fields.size("head_dim") : model.hidden / heads;
  if (fields.flag("attention_bias", false)) fields.refuse("attention_bias is true", "false");
  for (const nlohmann::json& block : *blocks) {
    const std::string where = fields.where() + ": block_configs";
    if (!block.is_object() || !block.contains("attention") || !block.contains("ffn") ||
        !block["attention"].is_object() || !block["ffn"].is_object())
      return fields.refuse("block_configs holds no block", "objects with attention and ffn");
    HfFields attention(block["attention"], where), ffn(block["ffn"], where);
    modules.begin_layer();
    attention.known(
        {"no_op", "n_heads_in_group", "num_sink_tokens", "unshifted_sink", "use_prefill_window_in_sink_attention"});
    for (const char* name : {"num_sink_tokens", "window_length", "sparsify"})
      if (attention.has(name)) attention.refuse(std::string{name} + " is set", "null");
    if (attention.flag("replace_with_linear", false)) {
      modules.linear("self_attn.linear_attn", ModuleClass::attention, model.hidden, model.hidden);
      modules.norm("input_layernorm", model.hidden);
    } else if (!attention.flag("no_op", false)) {
      detail::Heads of{heads, heads / attention.size("n_heads_in_group"), head_dim, head_dim};
      detail::add_heads(modules, of);
      detail::keep_heads(modules, of, 0);
      modules.norm("input_layernorm", model.hidden);
    }
    if (ffn.has("sparsify")) ffn.refuse("sparsify is set", "null");
    if (ffn.flag("replace_with_linear", false)) {
      modules.linear("mlp.linear_mlp", ModuleClass::dense_mlp, model.hidden, model.hidden);
      modules.norm("post_attention_layernorm", model.hidden);
    } else if (!ffn.flag("no_op", false)) {
      // DeciLM: 2/3 of the hidden size times the factor, rounded up to a multiple of 256.
      const int width = ffn.has("intermediate_size")
                            ? ffn.size("intermediate_size")
                            : static_cast<int>(2 * ffn.number("ffn_mult", 0.01, 1000) * model.hidden / 3);
      modules.mlp((width + 255) / 256 * 256, true);
      modules.norm("post_attention_layernorm", model.hidden);
    }
    ffn.known({"hidden_act", "no_op", "ffn_mult", "intermediate_size"});
    attention.check_all_read();
    ffn.check_all_read();
    if (!attention.status()) fields.keep(attention.status().error());
    if (!ffn.status()) fields.keep(ffn.status().error());
  }
  modules.ends(fields.flag("tie_word_embeddings", false));
}

SLUICE_READERS_INLINE void hf_mimo_v2(HfFields& fields, HfModules& modules, ModelDescription& model) {
  const int layers = fields.size("num_hidden_layers");
  detail::Heads full = detail::heads_of(fields, model.hidden);
  full.value_dim = fields.size("v_head_dim");
  detail::Heads local;
  local.heads = fields.size("swa_num_attention_heads");
  local.kv_heads = fields.size("swa_num_key_value_heads");
  local.head_dim = fields.size("swa_head_dim");
  local.value_dim = fields.size("swa_v_head_dim");
  full.qkv_bias = local.qkv_bias = fields.flag("attention_bias", false);
  const int window = fields.size({"sliding_window", "sliding_window_size"});
  fields.known({"sliding_window_size", "attention_chunk_size"});
  const std::vector<int> slides = fields.numbers("hybrid_layer_pattern");
  if (slides.size() != static_cast<std::size_t>(layers))
    return fields.refuse("hybrid_layer_pattern has another length", std::to_string(layers) + " entries");
  const bool local_sinks = fields.flag("add_swa_attention_sink_bias", false);
  const bool full_sinks = fields.flag("add_full_attention_sink_bias", false);
  const std::vector<bool> sparse = hf_sparse_layers(fields, layers);
  HfExperts experts = usual_experts(fields, "n_routed_experts");
  experts.correction_bytes = fields.text("topk_method", "") == "noaux_tc" ? 4 : 0;
  experts.router_bytes = 4;
  const int shared = fields.joined(fields.size_or("n_shared_experts", 0), experts.width);
  const int width = fields.size("intermediate_size");
  for (int l = 0; l < layers; ++l) {
    const bool sliding = slides[static_cast<std::size_t>(l)] != 0;
    const detail::Heads& heads = sliding ? local : full;
    modules.begin_layer();
    detail::add_heads(modules, heads);
    if (sliding ? local_sinks : full_sinks) modules.norm("self_attn.attention_sink_bias", heads.heads);
    detail::keep_heads(modules, heads, sliding ? window : 0);
    modules.layer_norms(2);
    if (!sparse[static_cast<std::size_t>(l)]) {
      modules.mlp(width, true);
    } else {
      modules.experts(experts);
      modules.shared_experts("mlp.shared_experts", shared);
    }
  }
  modules.ends(fields.flag("tie_word_embeddings", false));
}

SLUICE_READERS_INLINE void hf_minimax_m3(HfFields& fields, HfModules& modules, ModelDescription& model) {
  const int layers = fields.size("num_hidden_layers");
  const detail::Heads heads = detail::heads_of(fields, model.hidden);
  if (!fields.flag("use_qk_norm", false) || fields.text("qk_norm_type", "") != "per_head")
    fields.refuse("qk_norm_type is not per_head", "per_head");
  fields.known({"use_gemma_norm", "attention_output_gate"});
  if (fields.flag("attention_output_gate", false)) fields.refuse("attention_output_gate is true", "false");
  const std::vector<bool> sparse = hf_sparse_layers(fields, layers);
  HfExperts experts;
  experts.each = "block_sparse_moe.experts";
  experts.router = "block_sparse_moe.gate";
  experts.letters = true;
  experts.count = fields.size("num_local_experts");
  experts.per_token = fields.size("num_experts_per_tok");
  experts.width = fields.size({"moe_intermediate_size", "intermediate_size"});
  fields.known({"intermediate_size"});
  experts.router_bytes = 4; // the class keeps router and bias in f32
  experts.correction_bytes = fields.flag("use_routing_bias", false) ? 4 : 0;
  const int shared = fields.joined(fields.size_or("n_shared_experts", 0), fields.size("shared_intermediate_size"));
  const int width = fields.size("dense_intermediate_size");
  const nlohmann::json* index = fields.object("sparse_attention_config");
  const nlohmann::json none = nlohmann::json::object();
  HfFields indexer(index == nullptr ? none : *index, fields.where() + ": sparse_attention_config");
  const bool indexed = index != nullptr && indexer.flag("use_sparse_attention", false);
  std::vector<bool> has_indexer(static_cast<std::size_t>(layers), false);
  int index_heads = 0, index_dim = 0, picked = 0;
  if (indexed) {
    index_heads = indexer.size("sparse_num_index_heads");
    index_dim = indexer.size("sparse_index_dim");
    picked = indexer.size("sparse_topk_blocks") * indexer.size("sparse_block_size");
    const char* list = indexer.has("sparse_attention_freq") ? "sparse_attention_freq" : "sparse_disable_index_value";
    const std::vector<int> flags = indexer.numbers(list);
    if (flags.size() != has_indexer.size())
      indexer.refuse(std::string{list} + " has another length", "one a layer");
    else
      for (std::size_t l = 0; l < flags.size(); ++l) has_indexer[l] = flags[l] != 0;
    if (!indexer.status()) return fields.keep(indexer.status().error());
  }
  for (int l = 0; l < layers; ++l) {
    modules.begin_layer();
    detail::add_heads(modules, heads);
    detail::add_qk_norm(modules, heads, detail::QkNorm::head);
    const bool scored = has_indexer[static_cast<std::size_t>(l)];
    modules.keeps_heads(heads.kv_heads, heads.head_dim, heads.value_dim, 0, KvKind::sliding, scored ? picked : 0);
    if (scored) {
      modules.linear("self_attn.index_q_proj", ModuleClass::attention, std::int64_t{index_heads} * index_dim,
                     model.hidden);
      modules.linear("self_attn.index_k_proj", ModuleClass::attention, index_dim, model.hidden);
      modules.norm("self_attn.index_q_norm", index_dim);
      modules.norm("self_attn.index_k_norm", index_dim);
      modules.indexes(index_heads, index_dim, std::int64_t{index_dim} * model.kv_element_bytes);
    }
    modules.layer_norms(2);
    if (sparse[static_cast<std::size_t>(l)]) {
      modules.experts(experts);
      modules.shared_experts("block_sparse_moe.shared_experts", shared);
    } else {
      modules.mlp(width, true);
    }
  }
  modules.ends(fields.flag("tie_word_embeddings", false));
}

} // namespace sluice

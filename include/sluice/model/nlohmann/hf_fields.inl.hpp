// SPDX-License-Identifier: Apache-2.0
// HfFields: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/nlohmann/hf_fields.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <string_view>

namespace sluice::detail {

/// Whether a field of this name and value cannot change the number of weights, their bytes or those of KV.
inline bool harmless_hf_field(std::string_view name, const nlohmann::json& value) {
  // Switched off, or a number that no size can be.
  if (value.is_null() || value == false || (value.is_structured() && value.empty())) return true;
  if (value.is_string() && value.get_ref<const std::string&>().empty()) return true;
  const bool factor = name.find("ffn_") == 0 || name.find("mlp_") == 0; // ffn_dim_multiplier, mlp_ratio
  if (!factor && value.is_number_float() && std::floor(value.get<double>()) != value.get<double>()) return true;
  if (value == 0) return true;
  const auto ends = [&](std::string_view end) {
    return name.size() > end.size() && name.substr(name.size() - end.size()) == end;
  };
  for (const std::string_view end : {"_token_id", "_token_ids", "_token_index", "_dropout", "_dropout_prob", "_pdrop",
                                     "_eps", "_epsilon", "_rope_theta", "_softcapping", "_act", "_act_fn"})
    if (ends(end)) return true;
  for (const std::string_view start : {"mtp_", "num_mtp_", "transformers_", "output_", "initializer_"})
    if (name.substr(0, start.size()) == start) return true;
  // Whole names, since a part of one says nothing: num_memory_tokens and attention_chunk_size change KV.
  constexpr std::string_view whole[] = {
      // the class, its code and how it is called
      "model_type", "architectures", "auto_map", "_name_or_path", "name_or_path", "torch_dtype", "dtype", "torchscript",
      "use_cache", "cache_implementation", "return_dict", "return_dict_in_generate", "attn_implementation",
      "_attn_implementation", "_attn_implementation_autoset", "use_flash_attn", "use_bfloat16", "use_mamba_kernels",
      "pretraining_tp", "ep_size", "tp_size", "num_logits_to_keep", "logits_to_keep", "language_model_only",
      // texts, labels and generation
      "tokenizer_class", "id2label", "label2id", "num_labels", "problem_type", "prefix", "is_decoder",
      "is_encoder_decoder", "tie_encoder_decoder", "do_sample", "max_length", "min_length", "num_beams",
      "num_beam_groups", "num_return_sequences", "diversity_penalty", "repetition_penalty", "length_penalty",
      "temperature", "top_k", "top_p", "typical_p", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
      "chunk_size_feed_forward", "suppress_tokens", "begin_suppress_tokens", "ignore_index", "model_max_length",
      "seq_length", "initial_context_length",
      // rotations and positions
      "rope_theta", "rope_scaling", "rope_parameters", "rope_interleave", "rope_interleaved", "rope_local_base_freq",
      "rope_ratio", "rope_type", "rotary_dim", "rotary_pct", "rotary_base", "rotary_emb_base", "partial_rotary_factor",
      "partial_rotary_factors", "use_rope", "use_mrope", "mla_use_nope", "no_rope_layers", "no_rope_layer_interval",
      "nope_layer_interval", "attn_temperature_tuning", "max_position_embeddings", "original_max_position_embeddings",
      "position_embedding_type", "dual_chunk_attention_config", "full_attn_mod", "interpolate_factor",
      // factors on values
      "attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_multiplier", "lm_head_multiplier",
      "logits_scaling", "logit_scale", "attention_value_scale", "routed_scaling_factor", "moe_router_scaling_factor",
      "clip_qkv", "hidden_act", "hidden_activation", "swiglu_limit", "swiglu_limits", "swiglu_limits_shared",
      "swiglu_alpha", "activation_situ_beta", "activation_situ_linear_beta", "rescale_prenorm_residual",
      "residual_in_fp32", "init_method", "hc_sinkhorn_iters", "time_step_limit", "time_step_min", "time_step_max",
      "time_step_floor", "expand",
      // routing and training
      "n_group", "topk_group", "topk_method", "num_expert_group", "use_grouped_topk", "norm_topk_prob", "scoring_func",
      "moe_renormalize", "moe_router_activation_func", "moe_router_dtype", "moe_shared_expert_overlap", "seq_aux",
      "router_aux_loss_coef", "aux_loss_alpha", "router_z_loss_coef", "router_jitter_noise", "max_window_layers",
      // towers and layers that are not counted
      "vision_config", "audio_config", "use_mtp", "num_nextn_predict_layers", "image_seq_length",
      "mm_tokens_per_image"};
  for (const std::string_view one : whole)
    if (name == one) return true;
  return false;
}

/// Replaces Infinity, -Infinity and NaN outside strings by null.
inline std::string with_nulls(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    bool replaced = false;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"})
      if (!quoted && !replaced && text.compare(at, word.size(), word) == 0) {
        out += "null";
        at += word.size() - 1;
        replaced = true;
      }
    if (replaced) continue;
    if (quoted && text[at] == '\\' && at + 1 < text.size())
      out += text[at++];
    else if (text[at] == '"')
      quoted = !quoted;
    out += text[at];
  }
  return out;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE HfFields::HfFields(const nlohmann::json& object, std::string where)
    : object_(&object), fields_(object, std::move(where)) {}

SLUICE_READERS_INLINE bool HfFields::has(const char* name) {
  read_.insert(name);
  return fields_.has(name);
}

SLUICE_READERS_INLINE int HfFields::size(std::initializer_list<const char*> names, int limit) {
  for (const char* name : names) {
    if (!has(name) && name != *(names.end() - 1)) continue;
    const Expected<std::int64_t> value = fields_.whole(has(name) ? name : *names.begin(), 1, limit);
    if (value) return static_cast<int>(*value);
    keep(value.error());
  }
  return 1;
}

SLUICE_READERS_INLINE int HfFields::size_or(std::initializer_list<const char*> names, int otherwise, int limit) {
  for (const char* name : names) {
    if (!has(name)) continue;
    const Expected<std::int64_t> value = fields_.whole(name, 0, limit);
    if (value) return static_cast<int>(*value);
    keep(value.error());
  }
  return otherwise;
}

SLUICE_READERS_INLINE int HfFields::joined(int number, int width) {
  if (std::int64_t{number} * width <= widest) return number * width;
  refuse(std::to_string(number) + " shared experts of " + std::to_string(width) + " columns", "fewer");
  return 0;
}

SLUICE_READERS_INLINE double HfFields::number(const char* name, double least, double greatest) {
  read_.insert(name);
  const Expected<double> value = fields_.number(
      name, least, greatest, "a number from " + std::to_string(least) + " to " + std::to_string(greatest));
  if (!value) keep(value.error());
  return value ? *value : least;
}

SLUICE_READERS_INLINE bool HfFields::flag(const char* name, bool otherwise) {
  if (!has(name)) return otherwise;
  const Expected<bool> value = fields_.flag(name);
  if (!value) keep(value.error());
  return value ? *value : otherwise;
}

SLUICE_READERS_INLINE std::string HfFields::text(const char* name, const std::string& otherwise) {
  if (!has(name)) return otherwise;
  const Expected<std::string> value = fields_.text(name, "a string");
  if (!value) keep(value.error());
  return value ? *value : otherwise;
}

SLUICE_READERS_INLINE const nlohmann::json* HfFields::value(const char* name) {
  return has(name) ? &*object_->find(name) : nullptr;
}

SLUICE_READERS_INLINE std::vector<int> HfFields::numbers(const char* name, int least) {
  std::vector<int> found;
  const nlohmann::json* list = value(name);
  if (list == nullptr) return found;
  const std::string expected = "a list of whole numbers from " + std::to_string(least);
  if (!list->is_array()) return refuse(std::string{name} + " is no list", expected), found;
  for (const nlohmann::json& one : *list) {
    const std::int64_t number = one.is_number_integer() ? one.get<std::int64_t>() : least - 1;
    if (number < least || number > most)
      return refuse(std::string{name} + " holds " + excerpt(one.is_number() ? one.dump() : one.type_name()), expected),
             found;
    found.push_back(static_cast<int>(number));
  }
  return found;
}

SLUICE_READERS_INLINE std::vector<std::string> HfFields::texts(const char* name) {
  std::vector<std::string> found;
  const nlohmann::json* list = value(name);
  if (list == nullptr) return found;
  if (!list->is_array()) return refuse(std::string{name} + " is no list", "a list of strings"), found;
  for (const nlohmann::json& one : *list) {
    if (!one.is_string()) return refuse(std::string{name} + " holds what is no string", "a list of strings"), found;
    found.push_back(one.get<std::string>());
  }
  return found;
}

SLUICE_READERS_INLINE const nlohmann::json* HfFields::object(const char* name) {
  const nlohmann::json* found = value(name);
  if (found == nullptr || found->is_object()) return found;
  refuse(std::string{name} + " is no JSON object", "an object");
  return nullptr;
}

SLUICE_READERS_INLINE void HfFields::refuse(const std::string& what, const std::string& expected) {
  keep({ErrorCode::unsupported, where(), what, expected});
}

SLUICE_READERS_INLINE void HfFields::check_all_read() {
  for (auto field = object_->begin(); field != object_->end(); ++field) {
    if (read_.contains(field.key()) || detail::harmless_hf_field(field.key(), *field)) continue;
    return refuse("the field '" + excerpt(field.key()) + "' may change the sizes, and is not understood",
                  "fields that docs/models.md lists");
  }
}

SLUICE_READERS_INLINE Expected<nlohmann::json> read_hf_json(const std::string& path) {
  const Expected<std::string> text = read_json_text(path, std::size_t{16} << 20);
  if (!text) return text.error();
  return parse_json_object(detail::with_nulls(*text), path);
}

} // namespace sluice

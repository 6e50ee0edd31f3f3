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
  if (value.is_number_float() && std::floor(value.get<double>()) != value.get<double>()) return true;
  if (value == 0) return true;
  constexpr std::string_view parts[] = {"token",
                                        "rope",
                                        "rotary",
                                        "dropout",
                                        "_eps",
                                        "epsilon",
                                        "initializer",
                                        "transformers",
                                        "output_",
                                        "return_",
                                        "beam",
                                        "penalty",
                                        "aux_loss",
                                        "softcap",
                                        "auto_map",
                                        "architectures",
                                        "_scaling",
                                        "scoring",
                                        "router_z",
                                        "jitter",
                                        "time_step",
                                        "chunk_size",
                                        "problem_type",
                                        "id2label",
                                        "label2id",
                                        "logits_to",
                                        "pretrain",
                                        "torchscript",
                                        "multiplier",
                                        "temperature",
                                        "tokenizer",
                                        "top_p",
                                        "max_position",
                                        "hidden_act",
                                        "swiglu",
                                        "residual_in",
                                        "rescale",
                                        "kernels",
                                        "norm_topk",
                                        "renormal",
                                        "loss_alpha",
                                        "vision",
                                        "image",
                                        "video",
                                        "audio",
                                        "mtp",
                                        "nextn",
                                        "_pdrop",
                                        "sinkhorn",
                                        "overlap",
                                        "_nope",
                                        "no_rope",
                                        "ep_size",
                                        "tp_size",
                                        "attn_implementation",
                                        "clip",
                                        "mscale",
                                        "z_loss",
                                        "num_labels",
                                        "time_step",
                                        "activation_situ",
                                        "activation_func"};
  for (const std::string_view part : parts)
    if (name.find(part) != std::string_view::npos) return true;
  constexpr std::string_view whole[] = {"model_type",
                                        "n_group",
                                        "topk_group",
                                        "topk_method",
                                        "num_expert_group",
                                        "use_grouped_topk",
                                        "is_decoder",
                                        "use_bfloat16",
                                        "seq_aux",
                                        "top_k",
                                        "prefix",
                                        "do_sample",
                                        "max_length",
                                        "min_length",
                                        "typical_p",
                                        "use_cache",
                                        "_name_or_path",
                                        "name_or_path",
                                        "language_model_only",
                                        "torch_dtype",
                                        "dtype",
                                        "moe_router_dtype",
                                        "expand",
                                        "tie_encoder_decoder",
                                        "no_repeat_ngram_size",
                                        "encoder_no_repeat_ngram_size",
                                        "is_encoder_decoder",
                                        "max_window_layers",
                                        "ignore_index",
                                        "cache_implementation",
                                        "initial_context_length",
                                        "length_penalty",
                                        "num_return_sequences",
                                        "attention_value_scale",
                                        "hc_eps",
                                        "position_embedding_type",
                                        "init_method",
                                        "use_mrope",
                                        "full_attn_mod",
                                        "interpolate_factor",
                                        "logit_scale",
                                        "model_max_length",
                                        "seq_length",
                                        "use_flash_attn",
                                        "dual_chunk_attention_config",
                                        "lm_head_multiplier"};
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

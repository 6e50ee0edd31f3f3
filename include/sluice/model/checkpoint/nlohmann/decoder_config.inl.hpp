// SPDX-License-Identifier: Apache-2.0
// read_decoder_config: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/model/nlohmann/hf_decoders.hpp"
#include "sluice/model/nlohmann/hf_fields.hpp"
#include "sluice/model/nlohmann/hf_states.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice::detail {

/// Reads a config's fields one after another and keeps the first error.
class HfDecoderFields {
 public:
  HfDecoderFields(const nlohmann::json& config, const std::string& where) : fields_(config, where), config_(&config) {}

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] bool has(const char* name) const { return fields_.has(name); }

  std::int64_t whole(const char* name, std::int64_t least, std::int64_t most) {
    const Expected<std::int64_t> value = fields_.whole(name, least, most);
    return value ? *value : (keep(value.error()), least);
  }
  /// From 1.
  int size(const char* name, std::int64_t most = HfFields::widest) { return static_cast<int>(whole(name, 1, most)); }
  double number(const char* name, double least, double most, const std::string& expected) {
    const Expected<double> value = fields_.number(name, least, most, expected);
    return value ? *value : (keep(value.error()), least);
  }
  bool flag(const char* name, bool otherwise) {
    if (!fields_.has(name)) return otherwise;
    const Expected<bool> value = fields_.flag(name);
    return value ? *value : (keep(value.error()), otherwise);
  }
  std::string text(const char* name, const std::string& otherwise, const std::string& expected) {
    if (!fields_.has(name)) return otherwise;
    const Expected<std::string> value = fields_.text(name, expected);
    return value ? *value : (keep(value.error()), otherwise);
  }
  /// Refuses every value of a text field but one, which is also the default.
  void only_text(const char* name, const std::string& only) {
    const std::string value = text(name, only, only);
    if (value != only) refuse(std::string{name} + " is '" + excerpt(value) + "'", only);
  }
  /// The same for a flag.
  void only_flag(const char* name, bool only) {
    if (flag(name, only) != only)
      refuse(std::string{name} + " is " + (only ? "false" : "true"), only ? "true" : "false");
  }
  void refuse(const std::string& what, const std::string& expected) {
    keep({ErrorCode::unsupported, fields_.where(), what, expected});
  }
  /// What planners read of the config: `read(HfFields&)`.
  template <class Read>
  auto as_planned(const Read& read) {
    HfFields planner(*config_, fields_.where());
    auto result = read(planner);
    if (!planner.status()) keep(planner.status().error());
    return result;
  }
  /// A token, or a list of tokens; none if the field is absent. `of`: what the numbers are, if not tokens.
  std::vector<int> tokens(const char* name, int vocabulary, const char* of = "tokens") {
    std::vector<int> found;
    const auto field = config_->find(name);
    if (field == config_->end() || field->is_null()) return found;
    const auto take = [&](const nlohmann::json& value) {
      // An unsigned number that is too large is negative here, and refused too.
      const std::int64_t token = value.is_number_integer() ? value.get<std::int64_t>() : -1;
      if (token >= 0 && token < vocabulary) return found.push_back(static_cast<int>(token));
      keep({ErrorCode::bad_input, fields_.where(),
            std::string{name} + " is or holds " + excerpt(value.is_number() ? value.dump() : value.type_name()),
            std::string{of} + " from 0 to " + std::to_string(vocabulary - 1)});
    };
    if (!field->is_array()) {
      take(*field);
    } else {
      for (const nlohmann::json& value : *field) take(value);
    }
    return found;
  }

  void keep(const Error& error) {
    if (status_) status_ = error;
  }

 private:
  JsonFields fields_;
  const nlohmann::json* config_;
  Status status_;
};

/// Refuses models whose shape is known but which cannot be computed here, before the shape's reader accepts them.
inline Status check_computable(const nlohmann::json& config, const std::string& where) {
  const JsonFields fields(config, where);
  const std::string types = "deepseek_v2, deepseek_v3, glm4_moe, kimi_k2, llama, mistral, mixtral, opt, qwen2, qwen3, "
                            "qwen3_5_moe_text, qwen3_5_text or qwen3_next";
  const Expected<std::string> type = fields.text("model_type", types);
  if (!type) return type.error();
  bool known = false;
  for (const char* name : {"deepseek_v2", "deepseek_v3", "glm4_moe", "kimi_k2", "llama", "mistral", "mixtral", "opt",
                           "qwen2", "qwen3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"})
    known = known || *type == name;
  if (!known) return Error{ErrorCode::unsupported, where, "model_type is '" + excerpt(*type) + "'", types};
  if (fields.has("quantization_config"))
    return Error{ErrorCode::unsupported, where, "quantization_config is set", "an unquantised checkpoint"};
  const char* name = fields.has("dtype") ? "dtype" : "torch_dtype";
  if (!fields.has(name)) return {};
  const std::string elements = "float32, float16 or bfloat16";
  const Expected<std::string> element = fields.text(name, elements);
  if (!element) return element.error();
  if (*element == "float32" || *element == "float16" || *element == "bfloat16") return {};
  return Error{ErrorCode::unsupported, where, std::string{name} + " is '" + excerpt(*element) + "'", elements};
}

/// YaRN as DeepSeek's classes compute it: `mscale` and `mscale_all_dim` give a factor of what rotates, and of scores.
inline void read_yarn(HfDecoderFields& fields, RopeScaling& scaling) {
  const auto number = [&](const char* name, double otherwise, const char* expected) {
    return fields.has(name) ? fields.number(name, 1e-6, 1e6, expected) : otherwise;
  };
  scaling.kind = RopeScalingKind::yarn;
  scaling.factor = fields.number("factor", 1, 1e6, "a number of at least 1");
  scaling.original_positions = static_cast<int>(fields.whole("original_max_position_embeddings", 1, 1 << 24));
  scaling.high_frequency_factor = number("beta_fast", 32, "a positive number");
  scaling.low_frequency_factor = number("beta_slow", 1, "a positive number");
  if (fields.status() && scaling.high_frequency_factor < scaling.low_frequency_factor) // equal ones: Kimi-K2
    fields.refuse("beta_fast is below beta_slow", "at least beta_slow");
  if (fields.has("mscale") != fields.has("mscale_all_dim"))
    fields.refuse("only one of mscale and mscale_all_dim is set", "both or none: libraries read one differently");
  if (fields.has("attention_factor")) fields.refuse("attention_factor is set", "mscale and mscale_all_dim");
  fields.only_flag("truncate", true);
  const auto factor = [&](double mscale) { return 0.1 * mscale * std::log(scaling.factor) + 1; };
  const double of_rotated = number("mscale", 1, "a positive number"), of_all = number("mscale_all_dim", 0, "one too");
  scaling.rotated_factor = factor(of_rotated) / factor(of_all);
  scaling.score_factor = factor(of_all) * factor(of_all);
}

/// Reads rope_theta and rope_scaling, or newer configs' rope_parameters, which holds both. `default_share`: of a head's
/// numbers, those that the class rotates; 1: all of them, in every config.
inline Status read_rotation(const nlohmann::json& config, const std::string& where, double default_theta,
                            double default_share, DecoderConfig& decoder) {
  HfDecoderFields fields(config, where);
  decoder.rope_theta = default_theta;
  const std::string positive = "a number of at least 1";
  const auto theta_of = [&](HfDecoderFields& from) {
    if (from.has("rope_theta")) decoder.rope_theta = from.number("rope_theta", 1, 1e15, positive);
  };
  theta_of(fields);
  const bool latents = decoder.shape.has_latents(), parts = default_share < 1;
  constexpr const char* partial = "partial_rotary_factor";
  const auto rotate_share = [&](HfDecoderFields& from, double otherwise) { // of a head's numbers
    const double share = from.has(partial) ? from.number(partial, 0, 1, "a number from 0 to 1") : otherwise;
    if (!parts) {
      if (share < 1) from.refuse(std::string{partial} + " is below 1", "heads that are rotated whole");
      return share;
    }
    decoder.shape.rotated = static_cast<int>(decoder.shape.head_dim * share);
    if (decoder.shape.rotated < 1 || decoder.shape.rotated % 2 != 0)
      from.refuse(std::to_string(decoder.shape.rotated) + " of a head's " + std::to_string(decoder.shape.head_dim) +
                      " numbers rotate, by " + partial,
                  "an even number, for pairs rotate");
    return share;
  };
  const double share = rotate_share(fields, default_share);
  const char* name = fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!fields.status() || !fields.has(name)) return fields.status();
  const nlohmann::json& inner = *config.find(name);
  if (!inner.is_object()) {
    return Error{ErrorCode::bad_input, where, std::string{name} + " is no JSON object", "null, or an object"};
  }
  for (auto entry = inner.begin(); entry != inner.end(); ++entry) // newer configs may name layer types here
    if (entry->is_object())
      return Error{ErrorCode::unsupported, where, std::string{name} + " has an object '" + excerpt(entry.key()) + "'",
                   "one rotation for all layers"};
  HfDecoderFields scaling(inner, where + ": " + name);
  theta_of(scaling);
  const std::string kinds = latents ? "default or yarn" : parts ? "default" : "default or llama3";
  const std::string kind = scaling.text(scaling.has("rope_type") ? "rope_type" : "type", "default", kinds);
  if (kind == "yarn" && latents) {
    read_yarn(scaling, decoder.rope_scaling);
  } else if (kind == "llama3" && !latents && !parts) {
    decoder.rope_scaling.factor = scaling.number("factor", 1, 1e6, positive);
    decoder.rope_scaling.low_frequency_factor = scaling.number("low_freq_factor", 1e-6, 1e6, "a positive number");
    decoder.rope_scaling.high_frequency_factor = scaling.number("high_freq_factor", 1e-6, 1e6, "a positive number");
    decoder.rope_scaling.original_positions =
        static_cast<int>(scaling.whole("original_max_position_embeddings", 1, 1 << 24));
    if (scaling.status() && decoder.rope_scaling.high_frequency_factor <= decoder.rope_scaling.low_frequency_factor)
      scaling.refuse("high_freq_factor is not above low_freq_factor", "a range between them");
  } else if (kind != "default") {
    scaling.refuse("the rotation's kind is '" + excerpt(kind) + "'", kinds);
  }
  if (rotate_share(scaling, share) != share && fields.has(partial))
    scaling.refuse(std::string{partial} + " differs from that outside", "one factor: libraries read two differently");
  return scaling.status();
}

inline LayerSet layers_of(const std::vector<bool>& those) {
  LayerSet layers;
  for (std::size_t layer = 0; layer < those.size(); ++layer)
    if (those[layer]) layers.insert(static_cast<int>(layer));
  return layers;
}

/// The layers with experts, as planners read them. Classes do not read `mlp_layer_types`, so it may only repeat the
/// other fields.
inline LayerSet sparse_layers(HfDecoderFields& fields, const nlohmann::json& config, const std::string& where,
                              int layers) {
  nlohmann::json others = config;
  others.erase("mlp_layer_types");
  HfFields without(others, where);
  const std::vector<bool> listed =
      fields.as_planned([layers](HfFields& planner) { return hf_sparse_layers(planner, layers); });
  const std::vector<bool> sparse = hf_sparse_layers(without, layers);
  if (listed != sparse)
    fields.refuse("mlp_layer_types differs from the other fields that say which layers have experts",
                  "the same layers: libraries read one or the other");
  return layers_of(sparse);
}

/// The experts of DeepSeek-V2 and V3, Kimi-K2 and GLM-4.5, behind `first_k_dense_replace` dense layers, and the shared
/// ones beside them.
inline void read_grouped_experts(HfDecoderFields& fields, const nlohmann::json& config, const std::string& where,
                                 ModelShape& shape) {
  if (!config.contains("n_routed_experts")) fields.refuse("n_routed_experts is missing", "a number, or null: none");
  if (!fields.has("n_routed_experts")) return;
  (void)fields.whole("first_k_dense_replace", 0, HfFields::widest); // must be there
  if (fields.has("moe_layer_freq") && fields.whole("moe_layer_freq", 1, HfFields::widest) != 1)
    fields.refuse("moe_layer_freq is not 1", "1: libraries read others differently");
  if (!fields.status()) return;
  const LayerSet sparse = sparse_layers(fields, config, where, shape.layers);
  if (sparse.empty()) return;
  shape.dense = LayerSet::all(shape.layers) - sparse;
  shape.experts = static_cast<int>(fields.whole("n_routed_experts", 1, 1 << 12));
  shape.experts_per_token = static_cast<int>(fields.whole("num_experts_per_tok", 1, shape.experts));
  shape.moe_intermediate = static_cast<int>(fields.whole("moe_intermediate_size", 1, HfFields::widest));
  if (!config.contains("n_shared_experts")) fields.refuse("n_shared_experts is missing", "a number, or null: none");
  if (fields.has("n_shared_experts"))
    shape.shared_intermediate = shape.moe_intermediate * static_cast<int>(fields.whole("n_shared_experts", 1, 1 << 12));
}

/// How the classes of DeepSeek-V2 and V3 choose experts, and Kimi-K2's and GLM-4.5's as V3's. V2: by the softmax, among
/// the groups with the best expert, if it is group-limited. V3: by the sigmoid and a bias, among the groups with the
/// best pairs of experts.
inline void read_grouped_routing(HfDecoderFields& fields, bool third, const ModelShape& shape, ExpertRouting& routing) {
  const std::string methods = third ? "noaux_tc" : "greedy or group_limited_greedy";
  const std::string method = fields.text("topk_method", third ? "noaux_tc" : "greedy", methods);
  const bool grouped = third || method == "group_limited_greedy";
  if (third ? method != "noaux_tc" : method != "greedy" && !grouped)
    fields.refuse("topk_method is '" + excerpt(method) + "'", methods);
  fields.only_text("scoring_func", third ? "sigmoid" : "softmax");
  routing.scale = fields.number("routed_scaling_factor", 1e-6, 1e6, "a positive number");
  routing.score = third ? RouterScore::sigmoid : RouterScore::softmax;
  routing.corrected = third;
  routing.normalised = fields.flag("norm_topk_prob", false);
  if (third && !fields.has("norm_topk_prob")) fields.refuse("norm_topk_prob is missing", "true or false");
  if (!third && routing.normalised) fields.refuse("norm_topk_prob is true", "false: libraries read it differently");
  if (!grouped || !fields.status()) return;
  routing.groups = static_cast<int>(fields.whole("n_group", 1, shape.experts));
  routing.groups_per_token = static_cast<int>(fields.whole("topk_group", 1, routing.groups));
  routing.group_scores = third ? 2 : 1;
  const int of_group = shape.experts / routing.groups, open = routing.groups_per_token * of_group;
  if (shape.experts % routing.groups != 0)
    fields.refuse("n_group is " + std::to_string(routing.groups),
                  "a number that divides n_routed_experts: " + std::to_string(shape.experts));
  if (of_group < routing.group_scores)
    fields.refuse("n_group is " + std::to_string(routing.groups),
                  "groups of two experts at least, of n_routed_experts: " + std::to_string(shape.experts));
  if (shape.experts_per_token > open)
    fields.refuse("num_experts_per_tok is " + std::to_string(shape.experts_per_token),
                  "at most the experts of topk_group groups: " + std::to_string(open));
}

/// What every decoder's shape has.
inline ModelShape shape_of_any(HfDecoderFields& fields, const std::string& type) {
  ModelShape shape;
  shape.name = fields.text("_name_or_path", type, "a string");
  shape.layers = fields.size("num_hidden_layers", max_layers);
  shape.hidden = fields.size("hidden_size");
  shape.heads = fields.size("num_attention_heads");
  shape.vocabulary = fields.size("vocab_size", 1 << 24);
  shape.tied_embeddings = fields.flag("tie_word_embeddings", false);
  const bool single = fields.text(fields.has("dtype") ? "dtype" : "torch_dtype", "", "a data type") == "float32";
  shape.weight_element_bytes = single ? 4 : 2;
  shape.max_context = Tokens{fields.size("max_position_embeddings", 1 << 24)};
  return shape;
}

/// The shape of DeepSeek-V2, V3 and Kimi-K2.
inline Expected<ModelShape> latent_shape(const nlohmann::json& config, const std::string& where,
                                         const std::string& type) {
  HfDecoderFields fields(config, where);
  const auto size = [&fields](const char* name) { return fields.size(name); };
  ModelShape shape = shape_of_any(fields, type);
  if (fields.has("num_key_value_heads") && size("num_key_value_heads") != shape.heads)
    fields.refuse("num_key_value_heads is " + std::to_string(size("num_key_value_heads")),
                  "num_attention_heads, as all heads read one latent: " + std::to_string(shape.heads));
  shape.latent.rank = size("kv_lora_rank");
  shape.latent.rotated = size("qk_rope_head_dim");
  shape.latent.value = size("v_head_dim");
  if (fields.has("q_lora_rank")) shape.latent.query_rank = size("q_lora_rank");
  shape.head_dim = size("qk_nope_head_dim") + shape.latent.rotated;
  if (!config.contains("q_lora_rank")) fields.refuse("q_lora_rank is missing", "a rank, or null");
  if (shape.latent.rotated % 2 != 0)
    fields.refuse("qk_rope_head_dim is " + std::to_string(shape.latent.rotated), "an even one, for pairs rotate");
  if (fields.has("index_topk")) fields.refuse("index_topk is set", "attention to all tokens");
  read_grouped_experts(fields, config, where, shape);
  if (shape.experts == 0 || !shape.dense.empty() || fields.has("intermediate_size"))
    shape.mlp = size("intermediate_size");
  if (!fields.status()) return fields.status().error();
  if (Status status = check(shape, where); !status) return status.error();
  return shape;
}

/// Which layers keep a state, as planners read it.
inline LayerSet state_layers(HfDecoderFields& fields, int layers) {
  const LayerSet states =
      layers_of(fields.as_planned([layers](HfFields& planner) { return hf_state_layers(planner, layers); }));
  if (fields.status() && (states.empty() || states.count() == layers))
    fields.refuse(states.empty() ? "no layer keeps a state" : "every layer keeps a state",
                  "layers of linear_attention, and layers of full_attention between them");
  return states;
}

/// Layers with experts of Qwen3-Next, and of Qwen3.5 with experts, whose class has them in every layer. What planners
/// let pass is refused.
inline LayerSet delta_sparse_layers(HfDecoderFields& fields, const nlohmann::json& config, const std::string& where,
                                    std::string_view type, int layers) {
  if (type == "qwen3_5_text") return {};
  const bool every = type == "qwen3_5_moe_text";
  if (fields.whole("num_experts", every ? 1 : 0, 1 << 12) == 0) return {};
  if (fields.has("decoder_sparse_step")) (void)fields.whole("decoder_sparse_step", 1, HfFields::widest);
  (void)fields.tokens("mlp_only_layers", layers, "layers");
  const LayerSet sparse = fields.status() ? sparse_layers(fields, config, where, layers) : LayerSet{};
  if (every && fields.status() && sparse.count() < layers)
    fields.refuse(std::to_string(layers - sparse.count()) + " layers have no experts",
                  "experts in every layer, as the class of qwen3_5_moe_text has them");
  return sparse;
}

/// The shape of Qwen3-Next and Qwen3.5.
inline Expected<ModelShape> delta_shape(const nlohmann::json& config, const std::string& where,
                                        const std::string& type) {
  HfDecoderFields fields(config, where);
  const auto size = [&fields](const char* name) { return fields.size(name); };
  ModelShape shape = shape_of_any(fields, type);
  shape.kv_heads = size("num_key_value_heads");
  shape.head_dim = size("head_dim");
  shape.delta = {.layers = state_layers(fields, shape.layers),
                 .key_heads = size("linear_num_key_heads"),
                 .value_heads = size("linear_num_value_heads"),
                 .key_dim = size("linear_key_head_dim"),
                 .value_dim = size("linear_value_head_dim"),
                 .kernel = size("linear_conv_kernel_dim")};
  fields.only_flag("attn_output_gate", true);
  fields.only_text("output_gate_type", "swish");
  const LayerSet sparse = delta_sparse_layers(fields, config, where, type, shape.layers);
  if (!sparse.empty()) {
    shape.dense = LayerSet::all(shape.layers) - sparse;
    shape.experts = static_cast<int>(fields.whole("num_experts", 1, 1 << 12));
    shape.experts_per_token = static_cast<int>(fields.whole("num_experts_per_tok", 1, shape.experts));
    shape.moe_intermediate = size("moe_intermediate_size");
    shape.shared_intermediate = size("shared_expert_intermediate_size");
  }
  if (sparse.count() < shape.layers || fields.has("intermediate_size")) shape.mlp = size("intermediate_size");
  if (!fields.status()) return fields.status().error();
  if (Status status = check(shape, where); !status) return status.error();
  return shape;
}

/// The shape of GLM-4.5: K and V of heads, and DeepSeek-V3's experts.
inline Expected<ModelShape> glm_shape(const nlohmann::json& config, const std::string& where, const std::string& type) {
  HfDecoderFields fields(config, where);
  ModelShape shape = shape_of_any(fields, type);
  shape.kv_heads = fields.size("num_key_value_heads");
  shape.head_dim = fields.size("head_dim");
  read_grouped_experts(fields, config, where, shape);
  if (shape.experts == 0 || !shape.dense.empty() || fields.has("intermediate_size"))
    shape.mlp = fields.size("intermediate_size");
  if (!fields.status()) return fields.status().error();
  if (Status status = check(shape, where); !status) return status.error();
  return shape;
}

/// The layers' attention windows, as planners read them. A window that no context exceeds is none. Only Qwen's classes
/// read `layer_types`, so elsewhere it may only repeat the other fields.
inline void read_windows(HfDecoderFields& fields, const nlohmann::json& config, const std::string& where,
                         const std::string& type, DecoderConfig& decoder) {
  const auto read = [&](HfFields& planner) { return hf_decoder_windows(planner, decoder.shape.layers, type); };
  std::vector<int> windows = fields.as_planned(read);
  if (type.rfind("qwen", 0) != 0 && fields.has("layer_types")) {
    nlohmann::json others = config;
    others.erase("layer_types");
    HfFields without(others, where);
    if (read(without) != windows)
      fields.refuse("layer_types differs from sliding_window",
                    "the same windows: the class of " + type + " does not read layer_types");
  }
  for (int& window : windows)
    if (window >= decoder.max_positions) window = 0;
  if (std::any_of(windows.begin(), windows.end(), [](int of) { return of > 0; })) decoder.windows = std::move(windows);
}

} // namespace sluice::detail

namespace sluice {

SLUICE_MODEL_INLINE Expected<DecoderConfig> decoder_from_hf_config(const nlohmann::json& config,
                                                                   const std::string& where) {
  if (Status status = detail::check_computable(config, where); !status) return status.error();
  nlohmann::json whole = config; // the KV of all layers is kept whole here, whichever have a window
  if (whole.contains("use_sliding_window")) whole["use_sliding_window"] = false;
  const std::string type = config.find("model_type")->get<std::string>();
  const bool latents = type == "deepseek_v2" || type == "deepseek_v3" || type == "kimi_k2";
  const bool states = type == "qwen3_next" || type == "qwen3_5_text" || type == "qwen3_5_moe_text";
  const bool glm = type == "glm4_moe";
  Expected<ModelShape> shape = latents  ? detail::latent_shape(config, where, type)
                               : states ? detail::delta_shape(config, where, type)
                               : glm    ? detail::glm_shape(config, where, type)
                                        : shape_from_hf_config(whole, where);
  if (!shape) return shape.error();
  DecoderConfig decoder;
  decoder.shape = std::move(*shape);
  decoder.shape.kv_element_bytes = 4;
  detail::HfDecoderFields fields(config, where);
  decoder.max_positions = static_cast<int>(fields.whole("max_position_embeddings", 1, 1 << 24));

  if (type == "opt") {
    decoder.norm = NormKind::layer;
    decoder.norm_epsilon = 1e-5F; // torch.nn.LayerNorm's default; the config has no field for it
    decoder.position = PositionKind::learned;
    decoder.position_offset = 2;
    decoder.mlp = MlpKind::relu;
    decoder.qkv_bias = decoder.output_bias = decoder.mlp_bias = true;
    fields.only_text("activation_function", "relu");
    fields.only_flag("do_layer_norm_before", true); // only OPT-350M has false
    fields.only_flag("enable_bias", true);
    fields.only_flag("layer_norm_elementwise_affine", true);
    fields.only_flag("_remove_final_layer_norm", false);
  } else {
    decoder.norm_epsilon = static_cast<float>(fields.number("rms_norm_eps", 1e-12, 1, "a number from 1e-12 to 1"));
    fields.only_text("hidden_act", "silu");
    if (type == "mixtral") decoder.mlp = MlpKind::experts;
    if (type == "llama" || type == "qwen3")
      decoder.qkv_bias = decoder.output_bias = fields.flag("attention_bias", false);
    if (type == "qwen2") decoder.qkv_bias = true;
    if (glm) decoder.qkv_bias = fields.flag("attention_bias", false); // its class has none of the output
    decoder.query_key_norm = states || type == "qwen3" || (glm && fields.flag("use_qk_norm", false));
    fields.only_flag("mlp_bias", false);
    if (latents || states) fields.only_flag("attention_bias", false);
    if (decoder.shape.experts > 0 && (latents || states || glm)) {
      decoder.mlp = MlpKind::experts;
      if (!states) detail::read_grouped_routing(fields, type != "deepseek_v2", decoder.shape, decoder.routing);
      if (type == "qwen3_5_moe_text") fields.only_flag("norm_topk_prob", true); // its class does not read it
      if (states) decoder.routing.normalised = fields.flag("norm_topk_prob", true);
      decoder.gated_shared_experts = states;
    }
    if (states) {
      decoder.norm = NormKind::rms_offset;
      decoder.gated_heads = true;
      decoder.joint_states = type == "qwen3_next"; // Qwen3.5 has each projection alone
    } else if (latents) {
      decoder.neighbours_rotate = fields.flag("rope_interleave", true);
    } else if (!glm) {
      detail::read_windows(fields, config, where, type, decoder);
    }
    if (!latents && !states && decoder.shape.head_dim % 2 != 0)
      fields.refuse("the head size is " + std::to_string(decoder.shape.head_dim), "an even one, for its halves rotate");
    if (fields.status()) {
      const double rotated = states ? 0.25 : glm ? 0.5 : 1; // the classes' defaults
      Status rotation = detail::read_rotation(config, where, type == "mixtral" ? 1e6 : 1e4, rotated, decoder);
      if (!rotation) return rotation.error();
    }
  }
  decoder.end_tokens = fields.tokens("eos_token_id", decoder.shape.vocabulary);
  const std::vector<int> begin = fields.tokens("bos_token_id", decoder.shape.vocabulary);
  if (!begin.empty()) decoder.begin_token = begin.front();
  if (!fields.status()) return fields.status().error();
  return decoder;
}

SLUICE_MODEL_INLINE Expected<DecoderConfig> read_decoder_config(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string file = (fs::path(folder) / "config.json").string();
  if (!fs::exists(file, ignored)) {
    const bool there = fs::is_directory(folder, ignored);
    return Error{ErrorCode::not_found, folder, there ? "the folder has no config.json" : "there is no such folder",
                 "a Hugging Face model folder"};
  }
  const fs::path side = fs::path(folder) / "hf_quant_config.json";
  if (fs::exists(side, ignored))
    return Error{ErrorCode::unsupported, side.string(), "the checkpoint is quantised", "an unquantised checkpoint"};
  const Expected<nlohmann::json> config = read_hf_json(file);
  if (!config) return config.error();
  Expected<DecoderConfig> decoder = decoder_from_hf_config(*config, file);
  if (!decoder) return decoder;
  if (!config->contains("_name_or_path")) {
    const fs::path name = fs::absolute(fs::path(file), ignored).lexically_normal().parent_path().filename();
    if (!name.empty()) decoder->shape.name = name.string();
  }
  const std::string generation_file = (fs::path(folder) / "generation_config.json").string();
  if (!fs::exists(generation_file, ignored)) return decoder;
  const Expected<nlohmann::json> generation = read_json_object(generation_file);
  if (!generation) return generation.error();
  detail::HfDecoderFields fields(*generation, generation_file);
  std::vector<int> end = fields.tokens("eos_token_id", decoder->shape.vocabulary);
  if (!fields.status()) return fields.status().error();
  if (!end.empty()) decoder->end_tokens = std::move(end);
  return decoder;
}

} // namespace sluice

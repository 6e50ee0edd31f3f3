// SPDX-License-Identifier: Apache-2.0
// read_hf_config: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/named.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/model/nlohmann/hf_description.hpp"
#include "sluice/model/nlohmann/hf_fields.hpp"
#include "sluice/model/nlohmann/hf_forms.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

namespace sluice::detail {

/// Reads fields of whole numbers into ints, one after another, and keeps the first error.
class HfSizes {
 public:
  explicit HfSizes(const JsonFields& fields) : fields_(&fields) {}

  int required(const char* name) { return take(name); }
  int optional(const char* name, int otherwise) { return fields_->has(name) ? take(name) : otherwise; }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  int take(const char* name) {
    const Expected<std::int64_t> value = fields_->whole(name, 1, std::int64_t{1} << 24);
    if (value) return static_cast<int>(*value);
    if (status_) status_ = value.error();
    return 1;
  }

  const JsonFields* fields_;
  Status status_;
};

/// Bytes per weight, by the config's data type.
inline Expected<int> hf_element_bytes(const JsonFields& fields) {
  const char* name = fields.has("dtype") ? "dtype" : "torch_dtype";
  if (!fields.has(name)) return 2; // older configs; every engine of the papers then serves half precision
  const std::string expected = "float32, float16, bfloat16 or a float8 type";
  const Expected<std::string> type = fields.text(name, expected);
  if (!type) return type.error();
  if (*type == "float16" || *type == "bfloat16") return 2;
  if (*type == "float32") return 4;
  if (type->rfind("float8", 0) == 0) return 1;
  return Error{ErrorCode::unsupported, fields.where(), std::string{name} + " is '" + excerpt(*type) + "'", expected};
}

/// The tokens that each token attends to, of a model of `layers` layers; 0: all of its context.
inline Expected<Tokens> hf_attention_window(const JsonFields& fields, const nlohmann::json& config,
                                            std::string_view type, int layers) {
  const bool qwen = type.rfind("qwen", 0) == 0; // has the field in every config, and a switch
  bool on = !qwen;
  if (fields.has("use_sliding_window")) {
    const Expected<bool> said = fields.flag("use_sliding_window");
    if (!said) return said.error();
    on = *said;
  }
  if (!on) return Tokens{0};
  if (type == "mistral" && !config.contains("sliding_window")) return Tokens{4096}; // Hugging Face's default
  if (!fields.has("sliding_window")) return Tokens{0};
  const Expected<std::int64_t> window = fields.whole("sliding_window", 1, std::int64_t{1} << 40);
  if (!window) return window.error();
  const auto refuse = [&](const std::string& what, const std::string& expected) {
    return Error{ErrorCode::unsupported, fields.where(), what, expected};
  };
  if (type == "llama" || type == "opt" || type == "qwen3_moe") {
    const Expected<std::int64_t> longest =
        fields.has("max_position_embeddings") ? fields.whole("max_position_embeddings", 1, 1 << 24) : std::int64_t{0};
    if (!longest) return longest.error();
    if (*window >= *longest && *longest > 0) return Tokens{0};
    return refuse("sliding_window is " + std::to_string(*window),
                  qwen ? "use_sliding_window false: which layers slide depends on the class's version"
                       : "null: the class of " + std::string{type} + " has no window");
  }
  if (qwen) { // the layers below this one attend to all tokens
    const Expected<std::int64_t> full =
        fields.has("max_window_layers") ? fields.whole("max_window_layers", 0, 1 << 24) : std::int64_t{28};
    if (!full) return full.error();
    if (*full >= layers) return Tokens{0};
    if (*full > 0)
      return refuse(std::to_string(*full) + " of " + std::to_string(layers) +
                        " layers attend to all tokens, the others " + "to a window of " + std::to_string(*window),
                    "layers that are all alike; sluice-plan --models counts this model");
  }
  return Tokens{*window};
}

/// An error if a sparse model has layers without experts among layers with experts, which this shape cannot express.
inline Status check_every_layer_is_sparse(const JsonFields& fields, const nlohmann::json& config) {
  if (fields.has("decoder_sparse_step")) {
    const Expected<std::int64_t> step = fields.whole("decoder_sparse_step", 1, 1 << 16);
    if (!step) return step.error();
    if (*step != 1) {
      return Error{ErrorCode::unsupported, fields.where(), "decoder_sparse_step is " + std::to_string(*step),
                   "1: experts in every layer"};
    }
  }
  const auto dense = config.find("mlp_only_layers");
  if (dense != config.end() && !(dense->is_null() || (dense->is_array() && dense->empty()))) {
    return Error{ErrorCode::unsupported, fields.where(), "mlp_only_layers is not empty", "experts in every layer"};
  }
  return {};
}

/// What the layers of a model keep, for an error's line: "5 of 30 layers keep all tokens, 25 a window of 1024 tokens".
inline std::string kv_in_words(const ModelDescription& model) {
  std::string words;
  LayerSet any;
  for (const KvGroup& group : model.kv.groups()) {
    any = any | group.layers;
    const KvRule& rule = group.rule;
    const std::string tokens = std::to_string(rule.window) + " tokens";
    const std::string keeps = rule.kind == KvKind::full      ? "all tokens"
                              : rule.kind == KvKind::latent  ? "one latent per token"
                              : rule.kind == KvKind::indexer ? "an indexer's keys"
                              : rule.kind == KvKind::sliding ? "a window of " + tokens
                              : rule.kind == KvKind::chunked ? "a chunk of " + tokens
                              : rule.kind == KvKind::compressed
                                  ? "an entry per " + std::to_string(rule.stride) + " tokens"
                                  : "a state";
    words += words.empty() ? std::to_string(group.layers.count()) + " of " + std::to_string(model.layers.size()) +
                                 " layers keep " + keeps
                           : ", " + std::to_string(group.layers.count()) + " " + keeps;
  }
  const int none = static_cast<int>(model.layers.size()) - any.count();
  if (none > 0) words += ", " + std::to_string(none) + " nothing";
  return words;
}

/// Bytes of one layer's modules of a class, of `layer`; of one expert where they are experts.
inline std::int64_t stored_bytes(const ModelDescription& model, std::size_t layer, ModuleClass of) {
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  std::int64_t sum = 0;
  for (const Module& module : model.modules)
    if (module.of == of && module.name.rfind(prefix, 0) == 0)
      sum += of == ModuleClass::routed_experts ? module.bytes() / module.count : module.bytes();
  return sum;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE Expected<ModelShape> shape_of(const ModelDescription& model, const std::string& where) {
  const auto refuse = [&](const std::string& what, const std::string& expected) {
    return Error{ErrorCode::unsupported, where, what, expected + "; sluice-plan --models counts this model"};
  };
  const int layers = static_cast<int>(model.layers.size());
  if (!model.kv.uniform(layers))
    return refuse("its KV is in groups: " + detail::kv_in_words(model), "K and V of all tokens in every layer");
  const LayerDescription& layer = model.layers.front();
  if (model.kv.groups().front().rule.kind != KvKind::full)
    return refuse("its KV is one latent per token (multi-head latent attention)", "K and V of several heads");
  if (layer.shared_experts > 0 || (layer.experts > 0 && layer.expert_hidden != model.hidden))
    return refuse("its layers have shared experts", "routed experts or a dense MLP alone");
  int alike = 0;
  for (const LayerDescription& one : model.layers) alike += one == layer ? 1 : 0;
  if (alike != layers)
    return refuse("its layers differ: " + std::to_string(layers - alike) + " of " + std::to_string(layers) +
                      " are not as the first",
                  "layers that are all alike");
  if (layer.value_dim != layer.head_dim)
    return refuse("its values have another size than its keys", "heads of one size");
  ModelShape shape;
  shape.name = model.name;
  shape.layers = layers;
  shape.hidden = model.hidden;
  shape.heads = layer.heads;
  shape.kv_heads = layer.kv_heads;
  shape.head_dim = layer.head_dim;
  shape.mlp = layer.experts > 0 ? layer.expert_mlp : layer.mlp;
  shape.gated_mlp = layer.gated_mlp;
  shape.experts = layer.experts;
  shape.experts_per_token = layer.per_token;
  shape.moe_intermediate = layer.expert_mlp;
  shape.vocabulary = model.vocabulary;
  shape.tied_embeddings = model.tied_embeddings;
  shape.weight_element_bytes = model.element_bytes;
  shape.kv_element_bytes = model.kv_element_bytes;
  shape.max_context = Tokens{model.max_context};
  if (model.quantised) {
    // One layer stands for all: their mean, where excludes differ between layers.
    const auto mean = [&](ModuleClass of) {
      std::int64_t sum = 0;
      for (std::size_t l = 0; l < model.layers.size(); ++l) sum += detail::stored_bytes(model, l, of);
      return sum / layers;
    };
    shape.stored.attention = mean(ModuleClass::attention);
    shape.stored.router = mean(ModuleClass::router);
    shape.stored.expert = mean(layer.experts > 0 ? ModuleClass::routed_experts : ModuleClass::dense_mlp);
    shape.stored.embedding = model.weight_bytes(ModuleClass::embedding).count();
    shape.stored.head = model.tied_embeddings ? shape.stored.embedding : model.weight_bytes(ModuleClass::head).count();
  }
  if (Status status = check(shape, where); !status) return status.error();
  return shape;
}

SLUICE_READERS_INLINE Expected<ModelShape> shape_from_hf_config(const nlohmann::json& config, const std::string& where,
                                                                const nlohmann::json* side, int kv_element_bytes) {
  const JsonFields fields(config, where);
  const Expected<std::string> type = fields.text("model_type", "a model type that docs/models.md lists");
  if (!type) return type.error();
  const bool opt = *type == "opt";
  const bool mixtral = *type == "mixtral";
  const bool qwen_moe = *type == "qwen3_moe";
  const bool plain =
      opt || mixtral || qwen_moe || *type == "llama" || *type == "mistral" || *type == "qwen2" || *type == "qwen3";
  if (!plain || fields.has("quantization_config") || side != nullptr) {
    const Expected<ModelDescription> model = describe_hf_config(config, side, where, kv_element_bytes);
    if (!model) return model.error();
    return shape_of(*model, where);
  }

  ModelShape shape;
  shape.name = *type;
  if (fields.has("_name_or_path")) {
    const Expected<std::string> name = fields.text("_name_or_path", "a string");
    if (!name) return name.error();
    if (!name->empty()) shape.name = *name;
  }
  detail::HfSizes sizes(fields);
  shape.layers = sizes.required("num_hidden_layers");
  shape.hidden = sizes.required("hidden_size");
  shape.heads = sizes.required("num_attention_heads");
  shape.vocabulary = sizes.required("vocab_size");
  const detail::DecoderForm* form = opt ? nullptr : detail::find_decoder_form(*type);
  shape.kv_heads = form == nullptr     ? shape.heads
                   : form->kv_as_heads ? sizes.optional("num_key_value_heads", shape.heads)
                                       : sizes.required("num_key_value_heads");
  shape.mlp = sizes.required(opt ? "ffn_dim" : "intermediate_size");
  if (mixtral || qwen_moe) {
    shape.experts = sizes.required(mixtral ? "num_local_experts" : "num_experts");
    shape.experts_per_token = sizes.required("num_experts_per_tok");
    shape.moe_intermediate = mixtral ? shape.mlp : sizes.required("moe_intermediate_size");
  }
  const bool head_dim_given = fields.has("head_dim") || (form != nullptr && form->own_head_dim);
  if (head_dim_given) shape.head_dim = sizes.required("head_dim");
  if (!sizes.status()) return sizes.status().error();

  if (!head_dim_given) {
    if (shape.hidden % shape.heads != 0) {
      return Error{ErrorCode::bad_input, where,
                   "hidden_size " + std::to_string(shape.hidden) + " is not a multiple of num_attention_heads " +
                       std::to_string(shape.heads),
                   "a multiple, or a head_dim"};
    }
    shape.head_dim = shape.hidden / shape.heads;
  }
  if (opt && fields.has("word_embed_proj_dim")) {
    const Expected<std::int64_t> width = fields.whole("word_embed_proj_dim", 1, 1 << 24);
    if (!width) return width.error();
    if (*width != shape.hidden) { // only OPT-350M
      return Error{ErrorCode::unsupported, where, "word_embed_proj_dim differs from hidden_size", "equal sizes"};
    }
  }
  shape.gated_mlp = !opt;
  shape.tied_embeddings = opt;
  if (fields.has("tie_word_embeddings")) {
    const Expected<bool> tied = fields.flag("tie_word_embeddings");
    if (!tied) return tied.error();
    shape.tied_embeddings = *tied;
  }
  const Expected<int> bytes = detail::hf_element_bytes(fields);
  if (!bytes) return bytes.error();
  shape.weight_element_bytes = *bytes;
  // A field of sluice-profile's bundles: this machine's decoder keeps K and V in f32, whatever the type of its weights.
  shape.kv_element_bytes = kv_element_bytes > 0 ? kv_element_bytes : sizes.optional("kv_element_bytes", *bytes);
  shape.max_context = Tokens{sizes.optional("max_position_embeddings", 0)};
  const Expected<Tokens> window = detail::hf_attention_window(fields, config, *type, shape.layers);
  if (!window) return window.error();
  shape.attention_window = *window;
  if (shape.max_context > Tokens{0} && shape.attention_window >= shape.max_context) shape.attention_window = Tokens{0};
  if (!sizes.status()) return sizes.status().error();
  if (qwen_moe) {
    if (Status status = detail::check_every_layer_is_sparse(fields, config); !status) return status.error();
  }
  if (Status status = check(shape, where); !status) return status.error();
  return shape;
}

SLUICE_READERS_INLINE Expected<ModelShape> read_hf_config(const std::string& path, int kv_element_bytes) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::string file = path;
  if (fs::is_directory(path, ignored)) {
    const fs::path folder(path);
    fs::path found = folder / "config.json";
    if (!fs::exists(found, ignored)) found = folder / "model_config.json";
    if (!fs::exists(found, ignored)) {
      return Error{ErrorCode::not_found, path, "the folder has no config.json and no model_config.json",
                   "a Hugging Face model folder, or one of kernel times"};
    }
    file = found.string();
  }
  const Expected<nlohmann::json> config = read_hf_json(file);
  if (!config) return config.error();
  const Expected<std::optional<nlohmann::json>> side = read_hf_side_file(file);
  if (!side) return side.error();
  Expected<ModelShape> shape = shape_from_hf_config(*config, file, *side ? &**side : nullptr, kv_element_bytes);
  if (shape && !config->contains("_name_or_path")) {
    const fs::path folder = fs::absolute(fs::path(file), ignored).parent_path();
    if (!folder.filename().empty()) shape->name = folder.filename().string();
  }
  return shape;
}

SLUICE_READERS_INLINE Expected<SimulatedModel> find_or_read_simulated(const std::string& name_or_path,
                                                                      int kv_element_bytes) {
  Expected<ModelShape> shape = find_or_read_model(name_or_path, kv_element_bytes);
  if (shape) return SimulatedModel{*std::move(shape)};
  std::error_code ignored;
  if (shape.error().code != ErrorCode::unsupported || !std::filesystem::exists(name_or_path, ignored))
    return shape.error();
  Expected<ModelDescription> model = read_hf_description(name_or_path, kv_element_bytes);
  if (!model) return model.error();
  SimulatedModel simulated;
  simulated.shape.name = model->name;
  simulated.shape.layers = static_cast<int>(model->layers.size());
  simulated.shape.hidden = model->hidden;
  simulated.shape.vocabulary = model->vocabulary;
  simulated.shape.tied_embeddings = model->tied_embeddings;
  simulated.shape.weight_element_bytes = model->element_bytes;
  simulated.shape.kv_element_bytes = model->kv_element_bytes;
  simulated.shape.max_context = Tokens{model->max_context};
  simulated.layered = *std::move(model);
  return simulated;
}

SLUICE_READERS_INLINE Expected<ModelShape> find_or_read_model(const std::string& name_or_path, int kv_element_bytes) {
  std::error_code ignored;
  Expected<ModelShape> named = find_model(name_or_path);
  if (named && kv_element_bytes > 0) named->kv_element_bytes = kv_element_bytes;
  if (named || !std::filesystem::exists(name_or_path, ignored)) return named;
  return read_hf_config(name_or_path, kv_element_bytes);
}

} // namespace sluice

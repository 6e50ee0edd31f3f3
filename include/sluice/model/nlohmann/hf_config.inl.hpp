// SPDX-License-Identifier: Apache-2.0
// read_hf_config: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/named.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"

#include <cstdint>
#include <filesystem>
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

/// Bytes per weight, by the config's data type. A quantised checkpoint says otherwise in `quantization_config`, which
/// the reader refuses: its bytes are not those of its `torch_dtype`.
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

/// The tokens that each token attends to; 0: all of its context.
inline Expected<Tokens> hf_attention_window(const JsonFields& fields, const nlohmann::json& config,
                                            std::string_view type) {
  if (type != "mistral" && type != "mixtral") { // Qwen has the field in every config, and a switch
    if (!fields.has("use_sliding_window")) return Tokens{0};
    const Expected<bool> slides = fields.flag("use_sliding_window");
    if (!slides) return slides.error();
    if (!*slides) return Tokens{0};
  }
  if (type == "mistral" && !config.contains("sliding_window")) return Tokens{4096}; // Hugging Face's default
  if (!fields.has("sliding_window")) return Tokens{0};
  const Expected<std::int64_t> window = fields.whole("sliding_window", 1, std::int64_t{1} << 40);
  if (!window) return window.error();
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

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE Expected<ModelShape> shape_from_hf_config(const nlohmann::json& config,
                                                                const std::string& where) {
  const JsonFields fields(config, where);
  const std::string known = "llama, mistral, mixtral, opt, qwen2, qwen3 or qwen3_moe";
  const Expected<std::string> type = fields.text("model_type", known);
  if (!type) return type.error();
  const bool opt = *type == "opt";
  const bool mixtral = *type == "mixtral";
  const bool qwen_moe = *type == "qwen3_moe";
  if (!opt && !mixtral && !qwen_moe && *type != "llama" && *type != "mistral" && *type != "qwen2" && *type != "qwen3") {
    return Error{ErrorCode::unsupported, where, "model_type is '" + excerpt(*type) + "'", known};
  }
  if (fields.has("quantization_config")) {
    return Error{ErrorCode::unsupported, where, "quantization_config is set", "an unquantised checkpoint"};
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
  shape.kv_heads = opt ? shape.heads : sizes.optional("num_key_value_heads", shape.heads);
  shape.mlp = sizes.required(opt ? "ffn_dim" : "intermediate_size");
  if (mixtral || qwen_moe) {
    shape.experts = sizes.required(mixtral ? "num_local_experts" : "num_experts");
    shape.experts_per_token = sizes.required("num_experts_per_tok");
    shape.moe_intermediate = mixtral ? shape.mlp : sizes.required("moe_intermediate_size");
  }
  const bool head_dim_given = fields.has("head_dim");
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
  shape.kv_element_bytes = sizes.optional("kv_element_bytes", *bytes);
  shape.max_context = Tokens{sizes.optional("max_position_embeddings", 0)};
  const Expected<Tokens> window = detail::hf_attention_window(fields, config, *type);
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

SLUICE_READERS_INLINE Expected<ModelShape> read_hf_config(const std::string& path) {
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
  const Expected<nlohmann::json> config = read_json_object(file);
  if (!config) return config.error();
  Expected<ModelShape> shape = shape_from_hf_config(*config, file);
  if (shape && !config->contains("_name_or_path")) {
    const fs::path folder = fs::absolute(fs::path(file), ignored).parent_path();
    if (!folder.filename().empty()) shape->name = folder.filename().string();
  }
  return shape;
}

SLUICE_READERS_INLINE Expected<ModelShape> find_or_read_model(const std::string& name_or_path) {
  std::error_code ignored;
  Expected<ModelShape> named = find_model(name_or_path);
  if (named || !std::filesystem::exists(name_or_path, ignored)) return named;
  return read_hf_config(name_or_path);
}

} // namespace sluice

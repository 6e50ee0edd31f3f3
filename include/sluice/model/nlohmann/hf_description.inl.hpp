// SPDX-License-Identifier: Apache-2.0
// read_hf_description: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/nlohmann/hf_decoders.hpp"
#include "sluice/model/nlohmann/hf_description.hpp"
#include "sluice/model/nlohmann/hf_latent.hpp"
#include "sluice/model/nlohmann/hf_quantization.hpp"
#include "sluice/model/nlohmann/hf_states.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <system_error>

namespace sluice::detail {

/// Bytes of an element by the config's data type. Absent: 2, the size of both half precisions.
inline int described_element_bytes(HfFields& fields) {
  const char* name = fields.has("dtype") ? "dtype" : "torch_dtype";
  const std::string type = fields.text(name, "bfloat16");
  if (type == "float16" || type == "bfloat16") return 2;
  if (type == "float32") return 4;
  fields.refuse(std::string{name} + " is '" + excerpt(type) + "'", "float32, float16 or bfloat16");
  return 2;
}

/// Adds the layers by model type; false if the type is unknown.
inline bool add_described_layers(HfFields& fields, HfModules& modules, ModelDescription& model,
                                 std::string_view type) {
  if (hf_knows_decoder(type)) return hf_decoder(fields, modules, model, type), true;
  if (hf_knows_latent(type)) return hf_latent(fields, modules, model, type), true;
  if (type == "deepseek_v4" || type == "deepseek_ref") return hf_deepseek_v4(fields, modules, model), true;
  if (type == "gemma3_text" || type == "gemma4_text") return hf_gemma(fields, modules, model, type), true;
  if (type == "llama4_text") return hf_llama4(fields, modules, model), true;
  if (type == "nemotron-nas") return hf_nemotron_nas(fields, modules, model), true;
  if (type == "mimo_v2_flash") return hf_mimo_v2(fields, modules, model), true;
  if (type == "minimax_m3") return hf_minimax_m3(fields, modules, model), true;
  if (type == "kimi_linear") return hf_kimi_linear(fields, modules, model), true;
  if (type == "nemotron_h") return hf_nemotron_h(fields, modules, model), true;
  if (type == "qwen3_next" || type == "qwen3_5_text" || type == "qwen3_5_moe_text")
    return hf_gated_delta(fields, modules, model, type), true;
  return false;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE Expected<ModelDescription> describe_hf_config(const nlohmann::json& config,
                                                                    const nlohmann::json* side,
                                                                    const std::string& where, int kv_element_bytes) {
  HfFields outer(config, where);
  const nlohmann::json* text = outer.object("text_config");
  const nlohmann::json* quantised = outer.value("quantization_config");
  std::string type = outer.text("model_type", "");
  if (!outer.status()) return outer.status().error();
  std::optional<nlohmann::json> merged;
  if (text != nullptr) {
    // Some exporters leave these to the model around the text.
    merged = *text;
    for (const char* name : {"tie_word_embeddings", "dtype", "torch_dtype", "_name_or_path"})
      if (!merged->contains(name) && config.contains(name)) (*merged)[name] = config[name];
    if (merged->contains("dtype")) merged->erase("torch_dtype");
    if (quantised == nullptr) {
      const auto inner = text->find("quantization_config");
      if (inner != text->end() && !inner->is_null()) quantised = &*inner;
    }
  }
  HfFields fields(merged ? *merged : config, where + (text != nullptr ? ": text_config" : ""));
  fields.known({"quantization_config", "text_config"});
  if (text != nullptr) type = fields.text("model_type", type == "minimax_m3_vl" ? "minimax_m3" : "");
  if (text != nullptr && type.empty())
    return Error{ErrorCode::bad_input, fields.where(), "model_type is missing", "the text model's type"};

  Expected<HfQuantization> stored = HfQuantization::read(
      quantised, where, side, (std::filesystem::path(where).parent_path() / "hf_quant_config.json").string());
  if (!stored) return stored.error();

  ModelDescription model;
  model.name = fields.text("_name_or_path", type);
  if (model.name.empty()) model.name = type;
  model.hidden = fields.size("hidden_size");
  model.vocabulary = fields.size("vocab_size");
  model.max_context = fields.size_or("max_position_embeddings", 0);
  model.element_bytes = detail::described_element_bytes(fields);
  model.kv_element_bytes = kv_element_bytes > 0
                               ? kv_element_bytes
                               : stored->kv_element_bytes().value_or(
                                     fields.size_or("kv_element_bytes", model.element_bytes));
  if (!fields.status()) return fields.status().error();
  if (const int layers = fields.size_or("num_hidden_layers", 1); layers > max_layers)
    fields.refuse("num_hidden_layers is " + std::to_string(layers), "at most " + std::to_string(max_layers));
  if (!fields.status()) return fields.status().error();

  HfModules modules(fields, model);
  if (!detail::add_described_layers(fields, modules, model, type))
    return Error{ErrorCode::unsupported, fields.where(), "model_type is '" + excerpt(type) + "'",
                 "a type that docs/models.md lists"};
  fields.check_all_read();
  if (!fields.status()) return fields.status().error();
  if (type == "deepseek_v4" || type == "deepseek_ref") stored->store_exponents();
  if (Status status = stored->apply(model); !status) return status.error();
  return model;
}

SLUICE_READERS_INLINE Expected<ModelDescription> read_hf_description(const std::string& path, int kv_element_bytes) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? fs::path(path) / "config.json" : fs::path(path);
  const Expected<nlohmann::json> config = read_hf_json(file.string());
  if (!config) return config.error();
  std::optional<nlohmann::json> side;
  const fs::path beside = file.parent_path() / "hf_quant_config.json";
  if (fs::exists(beside, ignored)) {
    Expected<nlohmann::json> read = read_hf_json(beside.string());
    if (!read) return read.error();
    side = std::move(*read);
  }
  Expected<ModelDescription> model =
      describe_hf_config(*config, side ? &*side : nullptr, file.string(), kv_element_bytes);
  if (model && !config->contains("_name_or_path")) {
    const fs::path folder = fs::absolute(file, ignored).parent_path();
    if (!folder.filename().empty()) model->name = folder.filename().string();
  }
  return model;
}

} // namespace sluice

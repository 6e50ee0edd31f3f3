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
inline bool add_described_layers(HfFields& fields, HfModules& modules, ModelDescription& model, std::string_view type) {
  if (hf_knows_decoder(type)) return hf_decoder(fields, modules, model, type), true;
  if (hf_knows_latent(type)) return hf_latent(fields, modules, model, type), true;
  if (type == "deepseek_v4" || type == "deepseek_ref") return hf_deepseek_v4(fields, modules, model), true;
  if (type == "gemma2" || type == "gemma3_text" || type == "gemma4_text")
    return hf_gemma(fields, modules, model, type), true;
  if (type == "llama4_text") return hf_llama4(fields, modules, model), true;
  if (type == "nemotron-nas") return hf_nemotron_nas(fields, modules, model), true;
  if (type == "mimo_v2_flash") return hf_mimo_v2(fields, modules, model), true;
  if (type == "minimax_m3") return hf_minimax_m3(fields, modules, model), true;
  if (type == "kimi_linear") return hf_kimi_linear(fields, modules, model), true;
  if (type == "granitemoe" || type == "granitemoeshared" || type == "granitemoehybrid")
    return hf_granite_moe(fields, modules, model, type), true;
  if (type == "nemotron_h") return hf_nemotron_h(fields, modules, model), true;
  if (type == "qwen3_next" || type == "qwen3_5_text" || type == "qwen3_5_moe_text")
    return hf_gated_delta(fields, modules, model, type), true;
  return false;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE std::span<const HfModelTypes> hf_model_types() {
  static constexpr HfModelTypes types[] = {
      {"llama", "Llama 1 to 3.3", "all tokens"},
      {"mistral, ministral3, mixtral, phi3, phimoe, starcoder2",
       "Mistral, Ministral 3, Mixtral, Phi-3 and 4, Phi-3.5-MoE, StarCoder2", "all tokens, or a window in every layer"},
      {"qwen2, qwen2_vl, qwen2_vl_text, qwen2_5_vl, qwen2_5_vl_text, qwen3", "Qwen 1.5 to 3",
       "all tokens, or a window in the upper layers"},
      {"qwen2_moe, qwen3_moe, qwen3_vl_text, qwen3_vl_moe_text", "Qwen 1.5 to 3 with experts, Qwen3-VL", "all tokens"},
      {"cohere2, dots1, exaone4, gpt_oss, ministral, olmo3, smollm3, step3p7",
       "Command R7B and A, dots.llm1, EXAONE 4, gpt-oss, Ministral, OLMo 3, SmolLM3, Step 3.7",
       "all tokens, or a window in the layers of a list"},
      {"glm, glm4, glm4_moe, glm4v_text, glm4v_moe_text", "GLM-4 to 4.7", "all tokens"},
      {"arcee, cohere, gemma, gpt_neox, granite, hunyuan_v1_dense, internlm2, internlm3, mimo, nemotron, olmo2, phi, "
       "seed_oss, stablelm",
       "AFM, Command R, Gemma, GPT-NeoX and Pythia, Granite 3, Hunyuan (dense), InternLM 2 and 3, MiMo, Nemotron 4 and "
       "Minitron, OLMo 2, Phi-1 and 2, Seed-OSS, StableLM",
       "all tokens"},
      {"bailing_moe, deepseek, ernie4_5, ernie4_5_moe, granitemoe, granitemoeshared, minimax_m2, olmoe",
       "Ling, DeepSeekMoE, ERNIE 4.5, Granite 3 with experts, MiniMax-M2, OLMoE", "all tokens"},
      {"gemma2, gemma3_text, gemma4_text", "Gemma 2 to 4",
       "a window in most layers; Gemma 4: heads of another size in the others"},
      {"mimo_v2_flash", "MiMo-V2-Flash", "a window in most layers, with heads of another size in the others"},
      {"llama4_text", "Llama 4", "a chunk in three of four layers, all tokens in the fourth"},
      {"nemotron-nas", "Llama-Nemotron Super and Ultra", "all tokens, with heads by layer; nothing in some layers"},
      {"minimax_m3", "MiniMax-M3", "all tokens, and an indexer's keys"},
      {"deepseek_v2, deepseek_v3, kimi_k2, glm4_moe_lite", "DeepSeek-V2, V3 and R1, Kimi-K2, GLM-4.7-Flash",
       "one latent per token"},
      {"deepseek_v32, glm_moe_dsa", "DeepSeek-V3.2, GLM-5", "one latent per token, and an indexer's keys"},
      {"deepseek_v4, deepseek_ref", "DeepSeek-V4",
       "a window, entries per 4 or 128 tokens, an indexer's keys and a state"},
      {"qwen3_next, qwen3_5_text, qwen3_5_moe_text", "Qwen3-Next, Qwen3.5 and 3.6",
       "a state in three of four layers, all tokens in the fourth"},
      {"kimi_linear", "Kimi Linear, Kimi-K3", "a state in most layers, one latent per token in the others"},
      {"granitemoehybrid, nemotron_h", "Granite 4, Nemotron-H and Nemotron 3",
       "a state in Mamba-2 layers, all tokens in those with attention"},
  };
  return types;
}

namespace detail {

inline bool lists_hf_type(std::string_view type) {
  for (const HfModelTypes& row : hf_model_types())
    if ((", " + std::string{row.types} + ",").find(", " + std::string{type} + ",") != std::string::npos) return true;
  return false;
}

} // namespace detail

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

  const Error unknown{ErrorCode::unsupported, fields.where(), "model_type is '" + excerpt(type) + "'",
                      "a type that docs/models.md lists"};
  if (!detail::lists_hf_type(type)) return unknown; // before its sizes, which may have other names

  Expected<HfQuantization> stored = HfQuantization::read(
      quantised, where, side, (std::filesystem::path(where).parent_path() / "hf_quant_config.json").string());
  if (!stored) return stored.error();

  ModelDescription model;
  model.name = fields.text("_name_or_path", type);
  if (model.name.empty()) model.name = type;
  model.hidden = fields.size("hidden_size");
  // Gemma 3's configs leave out its class's default.
  model.vocabulary = type == "gemma3_text" ? fields.size_or("vocab_size", 262208, HfFields::most)
                                           : fields.size("vocab_size", HfFields::most);
  model.max_context = fields.size_or("max_position_embeddings", 0, HfFields::most);
  model.element_bytes = detail::described_element_bytes(fields);
  model.kv_element_bytes =
      kv_element_bytes > 0
          ? kv_element_bytes
          : stored->kv_element_bytes().value_or(fields.size_or("kv_element_bytes", model.element_bytes));
  if (!fields.status()) return fields.status().error();
  if (const int layers = fields.size_or("num_hidden_layers", 1); layers > max_layers)
    fields.refuse("num_hidden_layers is " + std::to_string(layers), "at most " + std::to_string(max_layers));
  if (!fields.status()) return fields.status().error();

  HfModules modules(fields, model);
  if (!detail::add_described_layers(fields, modules, model, type)) return unknown;
  fields.check_all_read();
  if (!fields.status()) return fields.status().error();
  for (const Module& module : model.modules)
    if (static_cast<double>(module.rows) * static_cast<double>(module.columns) * static_cast<double>(module.count) >
        1e14)
      return Error{ErrorCode::unsupported, fields.where(), module.name + " has more than 1e14 elements",
                   "smaller sizes"};
  if (type == "deepseek_v4" || type == "deepseek_ref") stored->store_exponents();
  if (Status status = stored->apply(model); !status) return status.error();
  return model;
}

SLUICE_READERS_INLINE Expected<std::optional<nlohmann::json>> read_hf_side_file(const std::string& config_path) {
  std::error_code ignored;
  const std::filesystem::path beside = std::filesystem::path(config_path).parent_path() / "hf_quant_config.json";
  if (!std::filesystem::exists(beside, ignored)) return std::optional<nlohmann::json>{};
  Expected<nlohmann::json> read = read_hf_json(beside.string());
  if (!read) return read.error();
  return std::optional<nlohmann::json>{std::move(*read)};
}

SLUICE_READERS_INLINE Expected<ModelDescription> read_hf_description(const std::string& path, int kv_element_bytes) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? fs::path(path) / "config.json" : fs::path(path);
  const Expected<nlohmann::json> config = read_hf_json(file.string());
  if (!config) return config.error();
  const Expected<std::optional<nlohmann::json>> side = read_hf_side_file(file.string());
  if (!side) return side.error();
  Expected<ModelDescription> model =
      describe_hf_config(*config, *side ? &**side : nullptr, file.string(), kv_element_bytes);
  if (model && !config->contains("_name_or_path")) {
    const fs::path folder = fs::absolute(file, ignored).parent_path();
    if (!folder.filename().empty()) model->name = folder.filename().string();
  }
  return model;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Writes small checkpoints as Hugging Face folders, in one file or in shards, and malformed ones.
#pragma once

#include "sluice/model/checkpoint/layer_layout.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::testing {

/// A tensor to be written.
struct WrittenTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};

inline void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  REQUIRE(stream.good());
}

/// A safetensors file with this header and this data, unchecked.
inline std::string safetensors_text(const std::string& header, std::string_view data) {
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) text += static_cast<char>((header.size() >> (8 * i)) & 0xffU);
  return text.append(header).append(data);
}

/// A file with these tensors in order. The header is padded so that the data begin `odd` bytes after a multiple of 8.
inline std::string safetensors_text(const std::vector<WrittenTensor>& tensors, std::size_t odd = 0) {
  nlohmann::json header = nlohmann::json::object();
  header["__metadata__"] = {{"format", "pt"}};
  std::string data;
  for (const WrittenTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  std::string text = header.dump();
  while (text.size() % 8 != odd) text += ' ';
  return safetensors_text(text, data);
}

inline std::string dtype_of(ElementType type) {
  return type == ElementType::f32 ? "F32" : type == ElementType::f16 ? "F16" : "BF16";
}

inline std::string bytes_at(const std::byte* at, std::int64_t count) {
  return {reinterpret_cast<const char*>(at), static_cast<std::size_t>(count)};
}

/// All tensors of a model, their names with `prefix`.
inline std::vector<WrittenTensor> tensors_of(const ModelWeights& weights, const std::string& prefix = "model.") {
  std::vector<WrittenTensor> tensors;
  const auto outer = [&](const Matrix& matrix, const std::string& name, bool vector) {
    if (matrix.empty()) return;
    const std::vector<std::int64_t> shape =
        vector ? std::vector<std::int64_t>{matrix.columns} : std::vector<std::int64_t>{matrix.rows, matrix.columns};
    tensors.push_back({name, dtype_of(matrix.type), shape, bytes_at(matrix.row(0), matrix.rows * matrix.row_bytes())});
  };
  const OuterTensorNames names = outer_tensor_names(weights.config);
  outer(weights.embedding, prefix + names.embedding, false);
  outer(weights.positions, prefix + names.positions, false);
  outer(weights.final_norm, prefix + names.final_norm, true);
  outer(weights.final_norm_bias, prefix + names.final_norm_bias, true);
  if (weights.head.head != weights.embedding.head) outer(weights.head, names.head, false);
  for (std::size_t layer = 0; layer < weights.layers.size(); ++layer) {
    const std::vector<TensorPlace>& places = weights.layout_at(static_cast<int>(layer)).places;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const TensorPlace& place = places[i];
      std::vector<std::int64_t> shape{place.rows, place.columns};
      if (is_vector(place.tensor)) shape.erase(shape.begin());
      if (place.tensor == LayerTensor::convolution) shape = {place.rows, 1, place.columns};
      tensors.push_back(
          {prefix + layer_tensor_name(weights.config, static_cast<int>(layer), place.tensor, place.expert),
           dtype_of(place.type), shape, bytes_at(weights.layers[layer][i], place.bytes())});
    }
  }
  return tensors;
}

/// The config.json of a decoder whose shape's name is its family's: llama, llama3, mistral, qwen2, qwen3, opt, mixtral,
/// deepseek_v2, deepseek_v3, kimi_k2, glm4_moe, qwen3_next, qwen3_5_text, qwen3_5_moe_text.
inline nlohmann::json hf_config_of(const DecoderConfig& config) {
  const ModelShape& shape = config.shape;
  const std::string type = shape.name == "llama3" ? "llama" : shape.name;
  nlohmann::json json{{"model_type", type},
                      {"num_hidden_layers", shape.layers},
                      {"hidden_size", shape.hidden},
                      {"num_attention_heads", shape.heads},
                      {"vocab_size", shape.vocabulary},
                      {"tie_word_embeddings", shape.tied_embeddings},
                      {"max_position_embeddings", config.max_positions},
                      {"eos_token_id", config.end_tokens},
                      {"bos_token_id", nullptr},
                      {"torch_dtype", shape.weight_element_bytes == 4 ? "float32" : "bfloat16"},
                      {"_name_or_path", shape.name}};
  if (config.begin_token >= 0) json["bos_token_id"] = config.begin_token;
  if (type == "opt") {
    json["ffn_dim"] = shape.mlp;
    json["activation_function"] = "relu";
    json["do_layer_norm_before"] = true;
    json["word_embed_proj_dim"] = shape.hidden;
    return json;
  }
  json["intermediate_size"] = shape.mlp;
  if (shape.has_latents()) {
    json["q_lora_rank"] = shape.latent.query_rank > 0 ? nlohmann::json(shape.latent.query_rank) : nlohmann::json();
    json["kv_lora_rank"] = shape.latent.rank;
    json["qk_nope_head_dim"] = shape.head_dim - shape.latent.rotated;
    json["qk_rope_head_dim"] = shape.latent.rotated;
    json["v_head_dim"] = shape.latent.value;
  } else {
    json["num_key_value_heads"] = shape.kv_heads;
    json["head_dim"] = shape.head_dim;
  }
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = static_cast<double>(config.norm_epsilon);
  json["rope_theta"] = config.rope_theta;
  json["rope_scaling"] = nullptr;
  if (config.rope_scaling.kind == RopeScalingKind::yarn) {
    json["rope_scaling"] = {{"type", "yarn"},
                            {"factor", config.rope_scaling.factor},
                            {"beta_slow", config.rope_scaling.low_frequency_factor},
                            {"beta_fast", config.rope_scaling.high_frequency_factor},
                            {"original_max_position_embeddings", config.rope_scaling.original_positions}};
  } else if (config.rope_scaling != RopeScaling{}) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", config.rope_scaling.factor},
                            {"low_freq_factor", config.rope_scaling.low_frequency_factor},
                            {"high_freq_factor", config.rope_scaling.high_frequency_factor},
                            {"original_max_position_embeddings", config.rope_scaling.original_positions}};
  }
  if (shape.has_states()) {
    const DeltaRule& delta = shape.delta;
    json["linear_num_key_heads"] = delta.key_heads;
    json["linear_num_value_heads"] = delta.value_heads;
    json["linear_key_head_dim"] = delta.key_dim;
    json["linear_value_head_dim"] = delta.value_dim;
    json["linear_conv_kernel_dim"] = delta.kernel;
    json["partial_rotary_factor"] = static_cast<double>(shape.rotated) / shape.head_dim;
    for (int layer = 0; layer < shape.layers; ++layer)
      json["layer_types"].push_back(delta.layers.contains(layer) ? "linear_attention" : "full_attention");
    if (type != "qwen3_5_text") json["num_experts"] = shape.experts;
    if (shape.experts > 0) {
      json["norm_topk_prob"] = config.routing.normalised;
      json["moe_intermediate_size"] = shape.moe_intermediate;
      json["shared_expert_intermediate_size"] = shape.shared_intermediate;
      json["mlp_only_layers"] = nlohmann::json::array();
      shape.dense.for_each([&json](int layer) { json["mlp_only_layers"].push_back(layer); });
    }
  }
  if (shape.experts > 0) json["num_experts_per_tok"] = shape.experts_per_token;
  if (type == "mixtral") json["num_local_experts"] = shape.experts;
  const bool glm = type == "glm4_moe";
  if (glm) {
    json["attention_bias"] = config.qkv_bias;
    json["use_qk_norm"] = config.query_key_norm;
    json["partial_rotary_factor"] = static_cast<double>(shape.rotated) / shape.head_dim;
  }
  if (shape.has_latents() || glm)
    json["n_routed_experts"] = shape.experts > 0 ? nlohmann::json(shape.experts) : nlohmann::json();
  if ((shape.has_latents() || glm) && shape.experts > 0) {
    const ExpertRouting& routing = config.routing;
    const bool third = type != "deepseek_v2";
    json["first_k_dense_replace"] = shape.dense.count();
    json["moe_layer_freq"] = 1;
    json["moe_intermediate_size"] = shape.moe_intermediate;
    json["n_shared_experts"] = nullptr;
    if (shape.shared_intermediate > 0) json["n_shared_experts"] = shape.shared_intermediate / shape.moe_intermediate;
    if (!glm) { // its configs do not say
      json["topk_method"] = third ? "noaux_tc" : routing.groups > 1 ? "group_limited_greedy" : "greedy";
      json["scoring_func"] = third ? "sigmoid" : "softmax";
    }
    json["norm_topk_prob"] = routing.normalised;
    json["routed_scaling_factor"] = routing.scale;
    json["n_group"] = routing.groups;
    json["topk_group"] = routing.groups_per_token;
  }
  return json;
}

/// A folder with a model in one file.
inline void write_checkpoint(const std::filesystem::path& folder, const ModelWeights& weights) {
  write_file(folder / "config.json", hf_config_of(weights.config).dump(1));
  write_file(folder / "model.safetensors", safetensors_text(tensors_of(weights)));
}

/// A folder with these tensors distributed over this many files, and their index.
inline void write_shards(const std::filesystem::path& folder, const std::vector<WrittenTensor>& tensors,
                         std::size_t shards) {
  nlohmann::json map;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    const std::string file = "model-" + std::to_string(shard + 1) + "-of-" + std::to_string(shards) + ".safetensors";
    std::vector<WrittenTensor> own;
    for (std::size_t i = shard; i < tensors.size(); i += shards) own.push_back(tensors[i]);
    for (const WrittenTensor& tensor : own) map[tensor.name] = file;
    write_file(folder / file, safetensors_text(own));
  }
  write_file(folder / "model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
}

} // namespace sluice::testing

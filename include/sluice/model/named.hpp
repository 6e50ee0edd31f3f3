// SPDX-License-Identifier: Apache-2.0
// The named models: the decoders of the papers, by function and by name.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/shape.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

// Every number is from the `config.json` that the model's authors publish on Hugging Face, in the repository named
// above each function; the longest context is max_position_embeddings. All are served in half precision, as in the
// papers.
namespace sluice {

/// meta-llama/Llama-2-7b-hf: hidden_size 4096, intermediate_size 11008, 32 layers, 32 heads, vocab_size 32000.
inline ModelShape llama2_7b() {
  return {.name = "llama2-7b",
          .layers = 32,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 32,
          .head_dim = 128,
          .mlp = 11008,
          .vocabulary = 32000,
          .max_context = Tokens{4096}};
}

/// meta-llama/Llama-2-13b-hf: hidden_size 5120, intermediate_size 13824, 40 layers, 40 heads, vocab_size 32000.
inline ModelShape llama2_13b() {
  return {.name = "llama2-13b",
          .layers = 40,
          .hidden = 5120,
          .heads = 40,
          .kv_heads = 40,
          .head_dim = 128,
          .mlp = 13824,
          .vocabulary = 32000,
          .max_context = Tokens{4096}};
}

/// meta-llama/Llama-2-70b-hf: hidden_size 8192, intermediate_size 28672, 80 layers, 64 heads, 8 KV heads,
/// vocab_size 32000.
inline ModelShape llama2_70b() {
  return {.name = "llama2-70b",
          .layers = 80,
          .hidden = 8192,
          .heads = 64,
          .kv_heads = 8,
          .head_dim = 128,
          .mlp = 28672,
          .vocabulary = 32000,
          .max_context = Tokens{4096}};
}

/// meta-llama/Meta-Llama-3-8B (and Llama-3.1-8B, whose shape is the same): hidden_size 4096, intermediate_size 14336,
/// 32 layers, 32 heads, 8 KV heads, vocab_size 128256. The longest context is Llama 3.1's; Llama 3's is 8,192.
inline ModelShape llama3_8b() {
  return {.name = "llama3-8b",
          .layers = 32,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .mlp = 14336,
          .vocabulary = 128256,
          .max_context = Tokens{131072}};
}

/// meta-llama/Meta-Llama-3-70B (and 3.1): hidden_size 8192, intermediate_size 28672, 80 layers, 64 heads, 8 KV heads,
/// vocab_size 128256. The longest context is Llama 3.1's; Llama 3's is 8,192.
inline ModelShape llama3_70b() {
  return {.name = "llama3-70b",
          .layers = 80,
          .hidden = 8192,
          .heads = 64,
          .kv_heads = 8,
          .head_dim = 128,
          .mlp = 28672,
          .vocabulary = 128256,
          .max_context = Tokens{131072}};
}

/// facebook/opt-6.7b: hidden_size 4096, ffn_dim 16384, 32 layers, 32 heads, vocab_size 50272, tied.
inline ModelShape opt_6_7b() {
  return {.name = "opt-6.7b",
          .layers = 32,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 32,
          .head_dim = 128,
          .mlp = 16384,
          .gated_mlp = false,
          .vocabulary = 50272,
          .tied_embeddings = true,
          .max_context = Tokens{2048}};
}

/// facebook/opt-13b: hidden_size 5120, ffn_dim 20480, 40 layers, 40 heads, vocab_size 50272, tied.
inline ModelShape opt_13b() {
  return {.name = "opt-13b",
          .layers = 40,
          .hidden = 5120,
          .heads = 40,
          .kv_heads = 40,
          .head_dim = 128,
          .mlp = 20480,
          .gated_mlp = false,
          .vocabulary = 50272,
          .tied_embeddings = true,
          .max_context = Tokens{2048}};
}

/// facebook/opt-30b: hidden_size 7168, ffn_dim 28672, 48 layers, 56 heads, vocab_size 50272, tied.
inline ModelShape opt_30b() {
  return {.name = "opt-30b",
          .layers = 48,
          .hidden = 7168,
          .heads = 56,
          .kv_heads = 56,
          .head_dim = 128,
          .mlp = 28672,
          .gated_mlp = false,
          .vocabulary = 50272,
          .tied_embeddings = true,
          .max_context = Tokens{2048}};
}

/// Qwen/Qwen1.5-7B: hidden_size 4096, intermediate_size 11008, 32 layers, 32 heads, vocab_size 151936.
inline ModelShape qwen1_5_7b() {
  return {.name = "qwen1.5-7b",
          .layers = 32,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 32,
          .head_dim = 128,
          .mlp = 11008,
          .vocabulary = 151936,
          .max_context = Tokens{32768}};
}

/// Qwen/Qwen2.5-32B: hidden_size 5120, intermediate_size 27648, 64 layers, 40 heads, 8 KV heads, vocab_size 152064.
inline ModelShape qwen2_5_32b() {
  return {.name = "qwen2.5-32b",
          .layers = 64,
          .hidden = 5120,
          .heads = 40,
          .kv_heads = 8,
          .head_dim = 128,
          .mlp = 27648,
          .vocabulary = 152064,
          .max_context = Tokens{131072}};
}

/// mistralai/Mixtral-8x7B-v0.1: hidden_size 4096, intermediate_size 14336 (of an expert), 32 layers, 32 heads,
/// 8 KV heads, num_local_experts 8, num_experts_per_tok 2, vocab_size 32000.
inline ModelShape mixtral_8x7b() {
  return {.name = "mixtral-8x7b",
          .layers = 32,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .mlp = 14336,
          .experts = 8,
          .experts_per_token = 2,
          .moe_intermediate = 14336,
          .vocabulary = 32000,
          .max_context = Tokens{32768}};
}

/// Qwen/Qwen3-32B: hidden_size 5120, intermediate_size 25600, 64 layers, 64 heads, 8 KV heads, head_dim 128,
/// vocab_size 151936.
inline ModelShape qwen3_32b() {
  return {.name = "qwen3-32b",
          .layers = 64,
          .hidden = 5120,
          .heads = 64,
          .kv_heads = 8,
          .head_dim = 128,
          .mlp = 25600,
          .vocabulary = 151936,
          .max_context = Tokens{40960}};
}

/// Qwen/Qwen3-30B-A3B: hidden_size 2048, 48 layers, 32 heads, 4 KV heads, head_dim 128, num_experts 128,
/// num_experts_per_tok 8, moe_intermediate_size 768, vocab_size 151936. Its intermediate_size (6144) describes a dense
/// MLP that no layer has.
inline ModelShape qwen3_30b_a3b() {
  return {.name = "qwen3-30b-a3b",
          .layers = 48,
          .hidden = 2048,
          .heads = 32,
          .kv_heads = 4,
          .head_dim = 128,
          .mlp = 6144,
          .experts = 128,
          .experts_per_token = 8,
          .moe_intermediate = 768,
          .vocabulary = 151936,
          .max_context = Tokens{40960}};
}

/// A name for `--model`, its shape, and the Hugging Face repository whose config.json has the shape.
struct NamedModel {
  std::string_view name;
  ModelShape (*shape)();
  std::string_view source;
};

inline constexpr std::array<NamedModel, 13> named_models{{
    {"llama2-7b", llama2_7b, "meta-llama/Llama-2-7b-hf"},
    {"llama2-13b", llama2_13b, "meta-llama/Llama-2-13b-hf"},
    {"llama2-70b", llama2_70b, "meta-llama/Llama-2-70b-hf"},
    {"llama3-8b", llama3_8b, "meta-llama/Meta-Llama-3-8B"},
    {"llama3-70b", llama3_70b, "meta-llama/Meta-Llama-3-70B"},
    {"opt-6.7b", opt_6_7b, "facebook/opt-6.7b"},
    {"opt-13b", opt_13b, "facebook/opt-13b"},
    {"opt-30b", opt_30b, "facebook/opt-30b"},
    {"qwen1.5-7b", qwen1_5_7b, "Qwen/Qwen1.5-7B"},
    {"qwen2.5-32b", qwen2_5_32b, "Qwen/Qwen2.5-32B"},
    {"mixtral-8x7b", mixtral_8x7b, "mistralai/Mixtral-8x7B-v0.1"},
    {"qwen3-32b", qwen3_32b, "Qwen/Qwen3-32B"},
    {"qwen3-30b-a3b", qwen3_30b_a3b, "Qwen/Qwen3-30B-A3B"},
}};

/// "llama2-7b, llama2-13b, …": for help texts and errors.
inline std::string model_names() {
  std::string names;
  for (const NamedModel& model : named_models) {
    if (!names.empty()) names += ", ";
    names += model.name;
  }
  return names;
}

/// The named model, or an error that lists the names.
inline Expected<ModelShape> find_model(std::string_view name) {
  for (const NamedModel& model : named_models) {
    if (model.name == name) return model.shape();
  }
  std::vector<std::string_view> names;
  for (const NamedModel& model : named_models) names.push_back(model.name);
  return Error{ErrorCode::not_found, "model", "there is no model '" + excerpt(name) + "'" + did_you_mean(name, names),
               "one of " + model_names() + ", or a folder with a config.json"};
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Latent attention: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/nlohmann/hf_decoders.hpp"
#include "sluice/model/nlohmann/hf_latent.hpp"

#include <string>
#include <vector>

namespace sluice {

SLUICE_READERS_INLINE HfLatent hf_latent_sizes(HfFields& fields) {
  HfLatent of;
  of.heads = fields.size("num_attention_heads");
  of.query_rank = fields.size_or("q_lora_rank", 0);
  if (!fields.json().contains("q_lora_rank")) fields.refuse("q_lora_rank is missing", "a rank, or null");
  of.rank = fields.size("kv_lora_rank");
  of.nope = fields.size("qk_nope_head_dim");
  of.rope = fields.size("qk_rope_head_dim");
  if (of.rope % 2 != 0)
    fields.refuse("qk_rope_head_dim is " + std::to_string(of.rope), "an even one, for pairs rotate");
  of.value = fields.size("v_head_dim");
  fields.known({"num_key_value_heads", "head_dim", "qk_head_dim"}); // restate what the sizes above say, or nothing
  return of;
}

SLUICE_READERS_INLINE void hf_latent_attention(HfModules& modules, const HfLatent& of, bool indexed) {
  constexpr ModuleClass attention = ModuleClass::attention;
  const int hidden = modules.hidden();
  const std::int64_t heads = of.heads;
  LayerDescription& layer = modules.layer();
  layer.attention = AttentionKind::latent;
  layer.heads = of.heads;
  layer.kv_heads = 1;
  layer.head_dim = of.nope + of.rope;
  layer.value_dim = of.value;
  layer.latent = of.rank + of.rope;
  layer.latent_value = of.rank;
  layer.expands = !indexed; // sparse attention works on latents in prompts too
  if (of.query_rank > 0) {
    modules.linear("self_attn.q_a_proj", attention, of.query_rank, hidden);
    modules.norm("self_attn.q_a_layernorm", of.query_rank);
    modules.linear("self_attn.q_b_proj", attention, heads * (of.nope + of.rope), of.query_rank);
  } else {
    modules.linear("self_attn.q_proj", attention, heads * (of.nope + of.rope), hidden);
  }
  modules.linear("self_attn.kv_a_proj_with_mqa", attention, of.rank + of.rope, hidden);
  modules.norm("self_attn.kv_a_layernorm", of.rank);
  modules.linear("self_attn.kv_b_proj", attention, heads * (of.nope + of.value), of.rank);
  if (of.gate) modules.linear("self_attn.g_proj", attention, heads * of.value, hidden);
  modules.linear("self_attn.o_proj", attention, hidden, heads * of.value);
  // FP8 latents of sparse attention: an f32 scale per 128 elements, the rotated part in two bytes (vLLM's fp8_ds_mla).
  const std::int64_t scaled = of.rank + (of.rank + 127) / 128 * 4 + of.rope * 2;
  modules.keeps(
      {.kind = KvKind::latent,
       .entry = indexed && modules.kv_bytes() == 1 ? scaled : std::int64_t{of.rank + of.rope} * modules.kv_bytes(),
       .picked = of.picked > 0 ? of.picked : KvRule::unlimited});
}

SLUICE_READERS_INLINE bool hf_knows_latent(std::string_view type) {
  for (const std::string_view one :
       {"deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe_lite"})
    if (one == type) return true;
  return false;
}

SLUICE_READERS_INLINE void hf_latent(HfFields& fields, HfModules& modules, ModelDescription& model,
                                     std::string_view type) {
  const int layers = fields.size("num_hidden_layers");
  HfLatent latent = hf_latent_sizes(fields);
  if (fields.flag("attention_bias", false) || fields.flag("mlp_bias", false))
    fields.refuse("attention_bias or mlp_bias is true", "false");
  const bool indexed = type == "deepseek_v32" || type == "glm_moe_dsa";
  int index_heads = 0, index_dim = 0;
  std::vector<bool> own_indexer(static_cast<std::size_t>(layers), indexed);
  if (indexed) {
    index_heads = fields.size("index_n_heads");
    index_dim = fields.size("index_head_dim");
    latent.picked = fields.size_or("index_topk", 0);
    if (latent.query_rank == 0) fields.refuse("q_lora_rank is null", "a rank, from which the indexer's queries follow");
    // A shared indexer has neither weights nor keys: the layer uses an earlier layer's choice.
    if (const std::vector<std::string> types = fields.texts("indexer_types"); !types.empty()) {
      if (types.size() != own_indexer.size()) fields.refuse("indexer_types has another length", "one a layer");
      for (std::size_t l = 0; l < types.size() && l < own_indexer.size(); ++l) {
        if (types[l] != "full" && types[l] != "shared")
          fields.refuse("indexer_types holds '" + types[l] + "'", "full or shared");
        own_indexer[l] = types[l] == "full";
      }
    } else if (fields.size_or("index_topk_freq", 1) != 1 || fields.has("index_topk_pattern")) {
      fields.refuse("index_topk_freq is set without indexer_types", "which layers have an indexer of their own");
    }
    fields.known({"index_topk_freq", "index_topk_pattern", "index_skip_topk_offset", "indexer_rope_interleave",
                  "index_share_for_mtp_iteration", "index_local_blocks"});
  } else if (fields.has("index_topk") || fields.has("index_n_heads")) {
    fields.refuse("index_topk is set", "a model type with an indexer: deepseek_v32 or glm_moe_dsa");
  }
  for (const std::string& kind : fields.texts("layer_types"))
    if (kind != "deepseek_sparse_attention" && kind != "full_attention")
      fields.refuse("layer_types holds '" + excerpt(kind) + "'", "deepseek_sparse_attention");
  const std::vector<bool> sparse = hf_sparse_layers(fields, layers);
  HfExperts experts = usual_experts(fields, "n_routed_experts");
  fields.known({"num_experts"});
  const std::string method = fields.text("topk_method", "");
  if (method.empty()) fields.refuse("topk_method is missing", "noaux_tc (a correction bias) or another method");
  experts.correction_bytes = method == "noaux_tc" ? 4 : 0;
  const int shared = fields.joined(fields.size_or("n_shared_experts", 0), experts.width);
  const int width = fields.size("intermediate_size");
  for (int l = 0; l < layers; ++l) {
    const bool own = own_indexer[static_cast<std::size_t>(l)];
    modules.begin_layer();
    hf_latent_attention(modules, latent, indexed);
    if (own) {
      modules.linear("self_attn.indexer.wq_b", ModuleClass::attention, std::int64_t{index_heads} * index_dim,
                     latent.query_rank);
      modules.linear("self_attn.indexer.wk", ModuleClass::attention, index_dim, model.hidden);
      modules.plain("self_attn.indexer.weights_proj", ModuleClass::attention, index_heads, model.hidden);
      modules.norm("self_attn.indexer.k_norm", index_dim);
      modules.norm("self_attn.indexer.k_norm.bias", index_dim);
      // FP8 keys with an f32 scale per 128 elements, whatever the type of the latents.
      modules.indexes(index_heads, index_dim, index_dim + (index_dim + 127) / 128 * 4);
    }
    modules.layer_norms(2);
    if (sparse[static_cast<std::size_t>(l)]) {
      modules.experts(experts);
      modules.shared_experts("mlp.shared_experts", shared);
    } else {
      modules.mlp(width, true);
    }
  }
  modules.ends(fields.flag("tie_word_embeddings", false));
}

SLUICE_READERS_INLINE void hf_deepseek_v4(HfFields& fields, HfModules& modules, ModelDescription& model) {
  constexpr ModuleClass attention = ModuleClass::attention;
  const int layers = fields.size("num_hidden_layers"), hidden = model.hidden;
  const int heads = fields.size("num_attention_heads"), dim = fields.size("head_dim");
  const int query_rank = fields.size("q_lora_rank"), output_rank = fields.size("o_lora_rank");
  const int groups = fields.size("o_groups"), window = fields.size("sliding_window");
  const int index_dim = fields.size("index_head_dim"), index_heads = fields.size("index_n_heads");
  const int streams = fields.size("hc_mult"), hashed = fields.size_or("num_hash_layers", 0);
  fields.known({"qk_rope_head_dim"});
  const std::int64_t picked = fields.size_or("index_topk", 0);
  if (fields.size("num_key_value_heads") != 1) fields.refuse("num_key_value_heads is not 1", "1");
  if (model.kv_element_bytes != 2) fields.refuse("KV is not in two bytes", "bfloat16");
  if (fields.flag("attention_bias", false)) fields.refuse("attention_bias is true", "false");
  if (heads % groups != 0) fields.refuse("o_groups does not divide the heads", "a divisor");
  const std::vector<int> ratios = fields.numbers("compress_ratios");
  if (ratios.size() < static_cast<std::size_t>(layers))
    return fields.refuse("compress_ratios is missing or too short", "one a layer");
  HfExperts experts = usual_experts(fields, "n_routed_experts");
  experts.each = "ffn.experts";
  experts.router = "ffn.gate";
  experts.letters = true;
  const int shared = fields.joined(fields.size_or("n_shared_experts", 0), experts.width);
  const bool correction = fields.text("topk_method", "") == "noaux_tc";
  const std::string expert_type = fields.text("expert_dtype", "");
  if (!expert_type.empty() && expert_type != "fp4")
    fields.refuse("expert_dtype is '" + excerpt(expert_type) + "'", "fp4, or none");
  // Entries over `ratio` tokens: a projection, a gate, positions and a norm; overlapping ones have two parts.
  const auto compressor = [&](const std::string& at, int ratio, int width) {
    const std::int64_t parts = ratio == 4 ? 2 : 1;
    modules.plain(at + ".wkv", attention, parts * width, hidden);
    modules.plain(at + ".wgate", attention, parts * width, hidden);
    modules.plain(at + ".ape", attention, ratio, parts * width, 4);
    modules.norm(at + ".norm", width);
  };
  for (int l = 0; l < layers; ++l) {
    const int ratio = ratios[static_cast<std::size_t>(l)];
    if (ratio != 0 && ratio != 4 && ratio != 128)
      fields.refuse("compress_ratios holds " + std::to_string(ratio), "0, 4 or 128");
    modules.begin_layer();
    LayerDescription& layer = modules.layer();
    layer.attention = AttentionKind::latent;
    layer.heads = heads;
    layer.kv_heads = 1;
    layer.head_dim = layer.value_dim = layer.latent = layer.latent_value = dim;
    modules.linear("attn.wq_a", attention, query_rank, hidden);
    modules.norm("attn.q_norm", query_rank);
    modules.linear("attn.wq_b", attention, std::int64_t{heads} * dim, query_rank);
    modules.linear("attn.wkv", attention, dim, hidden);
    modules.norm("attn.kv_norm", dim);
    modules.norm("attn.attn_sink", heads, 4);
    modules.linear("attn.wo_a", attention, std::int64_t{groups} * output_rank, std::int64_t{heads} * dim / groups);
    modules.linear("attn.wo_b", attention, hidden, std::int64_t{groups} * output_rank);
    const std::int64_t entry = std::int64_t{dim} * model.kv_element_bytes;
    modules.keeps({.kind = KvKind::sliding, .entry = entry, .window = window});
    if (ratio > 0) {
      compressor("attn.compressor", ratio, dim);
      modules.keeps({.kind = KvKind::compressed,
                     .entry = entry,
                     .stride = ratio,
                     .picked = ratio == 4 && picked > 0 ? picked : KvRule::unlimited});
      // The running state of an incomplete entry: a value and a gate in f32, of two blocks where entries overlap.
      std::int64_t state = std::int64_t{2} * ratio * dim * 4 * (ratio == 4 ? 2 : 1);
      if (ratio == 4) {
        modules.linear("attn.indexer.wq_b", attention, std::int64_t{index_heads} * index_dim, query_rank);
        modules.plain("attn.indexer.weights_proj", attention, index_heads, hidden);
        compressor("attn.indexer.compressor", ratio, index_dim);
        modules.indexes(index_heads, index_dim, index_dim + (index_dim + 127) / 128 * 4, ratio);
        state += std::int64_t{4} * ratio * index_dim * 4;
      }
      modules.keeps({.kind = KvKind::state, .entry = state});
    }
    // Hyper-connections before attention and before the MLP: every mixing coefficient is computed from all streams.
    for (const char* at : {"hc_attn", "hc_ffn"}) {
      const std::int64_t mixes = std::int64_t{2 + streams} * streams;
      modules.plain(std::string{at} + "_fn", ModuleClass::norm, mixes, std::int64_t{streams} * hidden, 4);
      modules.norm(std::string{at} + "_base", mixes, 4);
      modules.norm(std::string{at} + "_scale", 3, 4);
    }
    modules.norm("attn_norm", hidden);
    modules.norm("ffn_norm", hidden);
    // The first layers choose experts by a table over the vocabulary.
    experts.correction_bytes = correction && l >= hashed ? 4 : 0;
    modules.experts(experts);
    if (!expert_type.empty())
      for (auto module = model.modules.end() - 3; module != model.modules.end(); ++module)
        module->format = mx_weights(4);
    if (l < hashed) modules.plain("ffn.gate.tid2eid", ModuleClass::router, model.vocabulary, experts.per_token, 8);
    modules.shared_experts("ffn.shared_experts", shared);
  }
  modules.ends(fields.flag("tie_word_embeddings", false), "embed", "head");
  modules.plain("hc_head_fn", ModuleClass::norm, streams, std::int64_t{streams} * hidden, 4);
  modules.norm("hc_head_base", streams, 4);
  modules.norm("hc_head_scale", 1, 4);
}

} // namespace sluice

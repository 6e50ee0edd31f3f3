// SPDX-License-Identifier: Apache-2.0
// HfModules: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/model/nlohmann/hf_modules.hpp"

namespace sluice {

SLUICE_READERS_INLINE void HfModules::begin_layer() {
  prefix_ = "layers." + std::to_string(model_->layers.size()) + ".";
  model_->layers.emplace_back();
}

SLUICE_READERS_INLINE Module& HfModules::linear(const std::string& name, ModuleClass of, std::int64_t rows,
                                                std::int64_t columns) {
  Module& module = plain(name, of, rows, columns);
  module.linear = true;
  return module;
}

SLUICE_READERS_INLINE Module& HfModules::plain(const std::string& name, ModuleClass of, std::int64_t rows,
                                               std::int64_t columns, int bytes) {
  Module& module = model_->modules.emplace_back();
  module.name = prefix_ + name;
  module.of = of;
  module.rows = rows;
  module.columns = columns;
  module.format = plain_weights(bytes == 0 ? model_->element_bytes : bytes);
  return module;
}

SLUICE_READERS_INLINE void HfModules::projection(const std::string& name, ModuleClass of, std::int64_t rows,
                                                 std::int64_t columns, bool bias) {
  linear(name, of, rows, columns);
  if (bias) plain(name + ".bias", ModuleClass::norm, rows);
}

SLUICE_READERS_INLINE void HfModules::layer_norms(int count, bool bias) {
  constexpr const char* names[] = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                                   "post_feedforward_layernorm"};
  for (int n = 0; n < count; ++n) {
    norm(names[n], hidden());
    if (bias) norm(std::string{names[n]} + ".bias", hidden());
  }
}

SLUICE_READERS_INLINE void HfModules::mlp(int width, bool gated, bool bias, const std::string& at, ModuleClass of) {
  if (of == ModuleClass::dense_mlp) {
    layer().mlp = width;
    layer().gated_mlp = gated;
  }
  if (gated) projection(at + ".gate_proj", of, width, hidden(), bias);
  projection(at + ".up_proj", of, width, hidden(), bias);
  projection(at + ".down_proj", of, hidden(), width, bias);
}

SLUICE_READERS_INLINE HfExperts usual_experts(HfFields& fields, const char* count) {
  HfExperts experts;
  experts.count = fields.size(count);
  experts.per_token = fields.size("num_experts_per_tok");
  experts.width = fields.size("moe_intermediate_size");
  return experts;
}

SLUICE_READERS_INLINE void HfModules::experts(const HfExperts& experts) {
  const int width = experts.width, inner = experts.hidden == 0 ? hidden() : experts.hidden;
  if (experts.per_token > experts.count)
    fields_->refuse(std::to_string(experts.per_token) + " experts per token of " + std::to_string(experts.count),
                    "at most as many as there are");
  layer().experts = experts.count;
  layer().per_token = experts.per_token;
  layer().expert_mlp = width;
  layer().expert_hidden = inner;
  layer().gated_mlp = experts.gated;
  plain(experts.router, ModuleClass::router, experts.count, hidden(), experts.router_bytes);
  if (experts.biased) plain(experts.router + ".bias", ModuleClass::router, experts.count);
  if (experts.correction_bytes > 0)
    plain(experts.router + ".e_score_correction_bias", ModuleClass::router, experts.count, 1, experts.correction_bytes);
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    for (const bool bias : {false, true}) {
      if (bias && !experts.biased) break;
      Module& module = bias ? plain(experts.each + name + "_bias", ModuleClass::routed_experts, rows)
                            : linear(experts.each + name, ModuleClass::routed_experts, rows, columns);
      module.count = experts.count;
      module.active = experts.per_token;
    }
  };
  if (experts.fused) {
    add(".gate_up_proj", 2 * width, inner);
    add(".down_proj", inner, width);
    return;
  }
  if (experts.gated) add(experts.letters ? ".0.w1" : ".0.gate_proj", width, inner);
  add(experts.letters ? ".0.w3" : ".0.up_proj", width, inner);
  add(experts.letters ? ".0.w2" : ".0.down_proj", inner, width);
}

SLUICE_READERS_INLINE void HfModules::shared_experts(const std::string& name, int width, bool gated) {
  if (width == 0) return;
  layer().shared_experts = width;
  mlp(width, gated, false, name, ModuleClass::shared_experts);
}

SLUICE_READERS_INLINE void HfModules::keeps(const KvRule& rule) {
  if (rule.entry > (std::int64_t{1} << 33))
    return fields_->refuse("a layer's KV is larger than 8 GiB", "smaller sizes");
  if (model_->kv.add(static_cast<int>(model_->layers.size()) - 1, rule)) return;
  fields_->refuse("its layers have more than " + std::to_string(KvGroups::most) + " kinds of KV", "fewer kinds");
}

SLUICE_READERS_INLINE void HfModules::indexes(int heads, int dim, std::int64_t entry, std::int64_t stride) {
  layer().index_heads = heads;
  layer().index_dim = dim;
  keeps({.kind = KvKind::indexer, .entry = entry, .stride = stride});
}

SLUICE_READERS_INLINE void HfModules::keeps_heads(int kv_heads, int head_dim, int value_dim, std::int64_t window,
                                                  KvKind windowed, std::int64_t picked) {
  KvRule rule;
  rule.entry = std::int64_t{kv_heads} * (head_dim + value_dim) * kv_bytes();
  if (window > 0) {
    rule.kind = windowed;
    rule.window = window;
  }
  if (picked > 0) rule.picked = picked;
  keeps(rule);
}

SLUICE_READERS_INLINE void HfModules::ends(bool tied, const std::string& embedding, const std::string& head) {
  prefix_.clear();
  model_->tied_embeddings = tied;
  plain(embedding, ModuleClass::embedding, model_->vocabulary, hidden());
  norm("norm", hidden());
  if (!tied) linear(head, ModuleClass::head, model_->vocabulary, hidden());
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// HfModules: builds a ModelDescription, matrix by matrix.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/description.hpp"
#include "sluice/model/nlohmann/hf_fields.hpp"

#include <string>
#include <vector>

namespace sluice {

/// How the experts of a layer are named and sized.
struct HfExperts {
  std::string each = "mlp.experts"; ///< the experts' name in a layer
  std::string router = "mlp.gate";
  int count = 0;
  int per_token = 0;
  int width = 0;            ///< intermediate size of one expert
  int hidden = 0;           ///< width at which experts work; 0: the model's
  bool gated = true;        ///< gate, up and down; false: up and down
  bool letters = false;     ///< w1, w2 and w3 instead of gate_proj, down_proj and up_proj
  bool fused = false;       ///< one tensor of all experts for gate and up
  bool biased = false;      ///< experts and router have biases (gpt-oss)
  int correction_bytes = 0; ///< the router's correction bias, one number per expert, of this many bytes; 0: none
  int router_bytes = 0;     ///< of the router's elements; 0: the config's data type
};

/// The usual fields of a config: `count` names the number of experts, of which num_experts_per_tok compute a token,
/// each moe_intermediate_size wide.
[[nodiscard]] HfExperts usual_experts(HfFields& fields, const char* count);

/// Adds the matrices and KV rules of one layer after another. Names are those of the checkpoint without the prefix
/// before "layers", because excludes of quantised checkpoints refer to them.
class HfModules {
 public:
  HfModules(HfFields& fields, ModelDescription& model) : fields_(&fields), model_(&model) {}

  /// Starts the next layer; later names are in it.
  void begin_layer();
  [[nodiscard]] LayerDescription& layer() { return model_->layers.back(); }
  [[nodiscard]] int hidden() const { return model_->hidden; }
  [[nodiscard]] int kv_bytes() const { return model_->kv_element_bytes; }

  /// A matrix of a linear layer, which quantisation applies to.
  Module& linear(const std::string& name, ModuleClass of, std::int64_t rows, std::int64_t columns);
  /// Numbers that are never quantised, of `bytes` bytes each (0: the config's data type).
  Module& plain(const std::string& name, ModuleClass of, std::int64_t rows, std::int64_t columns = 1, int bytes = 0);
  void norm(const std::string& name, std::int64_t size, int bytes = 0) {
    plain(name, ModuleClass::norm, size, 1, bytes);
  }
  /// A linear layer with or without a bias.
  void projection(const std::string& name, ModuleClass of, std::int64_t rows, std::int64_t columns, bool bias);

  /// Norms around the layer's two blocks, each of the hidden size, with or without a bias.
  void layer_norms(int count, bool bias = false);
  /// A dense MLP of `width` columns.
  void mlp(int width, bool gated, bool bias = false, const std::string& at = "mlp",
           ModuleClass of = ModuleClass::dense_mlp);
  void experts(const HfExperts& experts);
  /// The experts that every token passes, as one MLP.
  void shared_experts(const std::string& name, int width, bool gated = true);

  /// Adds a rule for the layer's KV.
  void keeps(const KvRule& rule);
  /// The last layer's indexer, with keys of `entry` bytes for each `stride` tokens.
  void indexes(int heads, int dim, std::int64_t entry, std::int64_t stride = 1);
  /// K and V of `kv_heads` heads; `window` 0: of every token. `picked`: tokens that a token attends to at most, by an
  /// indexer; 0: all.
  void keeps_heads(int kv_heads, int head_dim, int value_dim, std::int64_t window = 0,
                   KvKind windowed = KvKind::sliding, std::int64_t picked = 0);

  /// Embedding, final norm and head.
  void ends(bool tied, const std::string& embedding = "embed_tokens", const std::string& head = "lm_head");

 private:
  HfFields* fields_;
  ModelDescription* model_;
  std::string prefix_;
};

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/model/nlohmann/hf_modules.inl.hpp"
#endif

// SPDX-License-Identifier: Apache-2.0
// Llama: the shape of the trained model, and each tensor's place among all parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace training {

/// A Llama with a tied head: the embedding's rows are also the head's, which saves a fifth of such a small model.
struct LlamaShape {
  int vocabulary = 2048;
  int hidden = 128;
  int layers = 6;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 32;
  int mlp = 352;
  int context = 256; ///< tokens of a training window: the longest context that the model learns to use
  double rope_theta = 10000;
  double norm_epsilon = 1e-5;

  [[nodiscard]] int queries() const { return heads * head_dim; }
  [[nodiscard]] int keys() const { return kv_heads * head_dim; }
};

/// A tensor among the parameters, row-major, with its name in the checkpoint. A vector has one row.
struct ParameterTensor {
  std::string name;
  int rows = 0;
  int columns = 0;
  std::size_t offset = 0; ///< in elements, from the first parameter

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); }
  [[nodiscard]] bool is_vector() const { return rows == 1; }
  /// Whether the tensor's result is added to the residual stream.
  [[nodiscard]] bool writes_residual() const {
    return name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos;
  }
};

/// Where the tensors of one layer begin. Query, key and value are adjacent, as are gate and up: the passes use each
/// group as one matrix, because one large product is faster than three small ones.
struct LayerPlaces {
  std::size_t attention_norm = 0;
  std::size_t query_key_value = 0;
  std::size_t output = 0;
  std::size_t mlp_norm = 0;
  std::size_t gate_up = 0;
  std::size_t down = 0;
};

/// All parameters of a model as one array, which the optimiser updates without knowing their meaning.
struct ParameterPlaces {
  explicit ParameterPlaces(const LlamaShape& shape) {
    embedding = add("model.embed_tokens.weight", shape.vocabulary, shape.hidden);
    for (int layer = 0; layer < shape.layers; ++layer) {
      const std::string name = "model.layers." + std::to_string(layer) + ".";
      LayerPlaces at;
      at.attention_norm = add(name + "input_layernorm.weight", 1, shape.hidden);
      at.query_key_value = add(name + "self_attn.q_proj.weight", shape.queries(), shape.hidden);
      add(name + "self_attn.k_proj.weight", shape.keys(), shape.hidden);
      add(name + "self_attn.v_proj.weight", shape.keys(), shape.hidden);
      at.output = add(name + "self_attn.o_proj.weight", shape.hidden, shape.queries());
      at.mlp_norm = add(name + "post_attention_layernorm.weight", 1, shape.hidden);
      at.gate_up = add(name + "mlp.gate_proj.weight", shape.mlp, shape.hidden);
      add(name + "mlp.up_proj.weight", shape.mlp, shape.hidden);
      at.down = add(name + "mlp.down_proj.weight", shape.hidden, shape.mlp);
      layers.push_back(at);
    }
    final_norm = add("model.norm.weight", 1, shape.hidden);
  }

  std::vector<ParameterTensor> tensors; ///< in the order of their offsets, without gaps
  std::vector<LayerPlaces> layers;
  std::size_t embedding = 0;
  std::size_t final_norm = 0;
  std::size_t count = 0;

 private:
  std::size_t add(std::string name, int rows, int columns) {
    tensors.push_back({std::move(name), rows, columns, count});
    count += tensors.back().count();
    return tensors.back().offset;
  }
};

} // namespace training

// SPDX-License-Identifier: Apache-2.0
// LayerWork: the FLOPs and bytes of one layer for an iteration's work, from the sums alone.
#pragma once

#include "sluice/cost/work.hpp"
#include "sluice/model/shape.hpp"

namespace sluice {

/// What one layer of a model has to do for a given `Work`. Every model that counts counts here.
///
/// Rebuilt tokens (`Work::rebuilt`) pass through the matrices of a layer like fresh ones; their attention among
/// themselves is left out, since the sum over the batch does not tell how many requests share it.
class LayerWork {
 public:
  explicit LayerWork(const ModelShape& shape)
      : linear_flops_per_token_(shape.linear_flops_per_token_per_layer().count()),
        flops_per_pair_(shape.attention_flops_per_pair_per_layer().count()),
        kv_bytes_per_token_(shape.kv_bytes_per_token_per_layer()),
        head_flops_per_row_(shape.head_flops_per_row()),
        head_bytes_(static_cast<double>(shape.head_weight_bytes().count())),
        dense_weight_bytes_(static_cast<double>(shape.layer_weight_bytes().count())),
        shape_(shape) {}

  /// Projections and MLP (or the experts taken) of `tokens` tokens.
  [[nodiscard]] Flops linear_flops(Tokens tokens) const {
    return Flops{linear_flops_per_token_ * static_cast<double>(tokens.count())};
  }
  /// Weights read for `tokens` tokens: a dense layer's all, of experts those touched.
  [[nodiscard]] double weight_bytes(Tokens tokens) const {
    if (shape_.experts == 0) return dense_weight_bytes_; // the usual case without the power function
    return static_cast<double>(shape_.layer_weight_bytes_read(tokens).count());
  }

  /// What attention does in a layer, as counts.
  struct Attention {
    double pairs = 0.0;     ///< (query, key): a fresh token attends to all before it and to itself
    double kv_tokens = 0.0; ///< tokens whose K and V are read, once per sequence, or written
  };
  /// `fresh` is `work.tokens() + work.rebuilt`.
  [[nodiscard]] static Attention attention(const Work& work, Tokens fresh) {
    const auto context = static_cast<double>(work.decode_context.count());
    Attention sum{context, context + static_cast<double>(fresh.count())};
    for (const ChunkWork& chunk : work.chunks) {
      const auto tokens = static_cast<double>(chunk.fresh.count());
      const auto cached = static_cast<double>(chunk.cached.count());
      sum.pairs += tokens * (cached + 0.5 * (tokens + 1.0));
      sum.kv_tokens += cached + tokens;
    }
    return sum;
  }
  [[nodiscard]] Flops flops_per_pair() const { return Flops{flops_per_pair_}; }
  [[nodiscard]] Bytes kv_bytes_per_token() const { return kv_bytes_per_token_; }

  /// The output head for `rows` rows, and its matrix.
  [[nodiscard]] Flops head_flops(std::int64_t rows) const { return head_flops_per_row_ * static_cast<double>(rows); }
  [[nodiscard]] double head_bytes() const { return head_bytes_; }
  [[nodiscard]] const ModelShape& shape() const { return shape_; }

 private:
  double linear_flops_per_token_;
  double flops_per_pair_;
  Bytes kv_bytes_per_token_;
  Flops head_flops_per_row_;
  double head_bytes_;
  double dense_weight_bytes_;
  ModelShape shape_;
};

} // namespace sluice

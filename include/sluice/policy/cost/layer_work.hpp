// SPDX-License-Identifier: Apache-2.0
// LayerWork: the FLOPs and bytes of one layer for an iteration's work. StepFloor: lower bounds that are linear in it.
#pragma once

#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/work.hpp"

#include <algorithm>
#include <vector>

namespace sluice {

/// What one layer of a model computes for a given `Work`. All counting cost models use this class.
///
/// The layer's rebuilding (`Work::rebuilt`) is counted separately: `rebuild_flops`, `rebuild_bytes`.
class LayerWork {
 public:
  explicit LayerWork(const ModelShape& shape)
      : linear_flops_per_token_(shape.linear_flops_per_token_per_layer().count()),
        flops_per_pair_(shape.attention_flops_per_pair_per_layer().count()),
        kv_projection_flops_per_token_(shape.kv_projection_flops_per_token_per_layer().count()),
        kv_bytes_per_token_(shape.kv_bytes_per_token_per_layer()),
        head_flops_per_row_(shape.head_flops_per_row()),
        head_bytes_(static_cast<double>(shape.head_weight_bytes().count())),
        dense_weight_bytes_(static_cast<double>(shape.layer_weight_bytes().count())),
        shape_(shape) {}

  /// FLOPs of projections and MLP (or of the chosen experts) for `tokens` tokens.
  [[nodiscard]] Flops linear_flops(Tokens tokens) const {
    return Flops{linear_flops_per_token_ * static_cast<double>(tokens.count())};
  }
  /// Bytes of weights read for `tokens` tokens: all of a dense layer's, and those of the touched experts.
  [[nodiscard]] double weight_bytes(Tokens tokens) const {
    if (shape_.experts == 0) return dense_weight_bytes_; // the usual case, without the power function
    return static_cast<double>(shape_.layer_weight_bytes_read(tokens).count());
  }

  /// A layer's attention, as counts.
  struct Attention {
    double pairs = 0.0;     ///< (query, key): a fresh token attends to all before it and to itself
    double kv_tokens = 0.0; ///< tokens whose K and V are read, once per sequence, or written
  };
  /// `fresh` is `work.tokens()`.
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

  /// FLOPs to rebuild K and V: without the output head, and only K and V in the last rebuilt layer.
  [[nodiscard]] Flops rebuild_flops(const LayerRebuild& rebuild) const {
    return Flops{kv_projection_flops_per_token_ * static_cast<double>(rebuild.projected.count()) +
                 (linear_flops_per_token_ - kv_projection_flops_per_token_) *
                     static_cast<double>(rebuild.passed.count()) +
                 flops_per_pair_ * rebuild.pairs};
  }
  /// Bytes of the weights that rebuilding reads, of the K and V that it writes or reads, and of the hidden states that
  /// it reads from device memory, as a separate kernel. Fetched hidden states count on the link alone.
  [[nodiscard]] double rebuild_bytes(const LayerRebuild& rebuild) const {
    const double projections = 0.5 * kv_projection_flops_per_token_ * shape_.attention_element_bytes();
    double bytes = rebuild.projected > Tokens{0} ? projections : 0.0;
    if (rebuild.passed > Tokens{0}) bytes += weight_bytes(rebuild.passed) - projections;
    return bytes +
           static_cast<double>(kv_bytes_per_token_.count()) *
               static_cast<double>((rebuild.projected + rebuild.passed).count()) +
           static_cast<double>(shape_.hidden_bytes_per_token().count()) * static_cast<double>(rebuild.read.count());
  }

  /// FLOPs of the output head for `rows` rows. Below: the bytes of its matrix.
  [[nodiscard]] Flops head_flops(std::int64_t rows) const { return head_flops_per_row_ * static_cast<double>(rows); }
  [[nodiscard]] double head_bytes() const { return head_bytes_; }
  [[nodiscard]] const ModelShape& shape() const { return shape_; }

 private:
  double linear_flops_per_token_;
  double flops_per_pair_;
  double kv_projection_flops_per_token_;
  Bytes kv_bytes_per_token_;
  Flops head_flops_per_row_;
  double head_bytes_;
  double dense_weight_bytes_;
  ModelShape shape_;
};

// StepFloor: lower bounds of an iteration's computation that are linear in its work.

/// An iteration computes for at least `fixed_s` if it yields a token, plus the sum over its work:
///
///     decodes * decode_s + decode_context * context_s + (chunks' tokens) * token_s + (chunks' pairs) * pair_s
///
/// with the terms of Work; a chunk of x tokens after y has x (y + (x + 1) / 2) pairs.
struct StepLine {
  double fixed_s = 0;
  double decode_s = 0;
  double context_s = 0;
  double token_s = 0;
  double pair_s = 0;

  /// An iteration that decodes one sequence, which reads `context` tokens.
  [[nodiscard]] constexpr double decode(double context) const { return fixed_s + decode_s + context_s * context; }
  /// All iterations that compute a prompt of `tokens`, whatever its chunks: their pairs add up to the same.
  [[nodiscard]] constexpr double prompt(double tokens) const {
    return fixed_s + token_s * tokens + pair_s * 0.5 * tokens * (tokens + 1);
  }
};

/// A weighted mean of two lines, which bounds the time as they do.
[[nodiscard]] constexpr StepLine between(const StepLine& a, const StepLine& b, double share) {
  const auto mixed = [share](double one, double other) { return (1 - share) * one + share * other; };
  return {mixed(a.fixed_s, b.fixed_s), mixed(a.decode_s, b.decode_s), mixed(a.context_s, b.context_s),
          mixed(a.token_s, b.token_s), mixed(a.pair_s, b.pair_s)};
}

/// What a cost model's `step` never undercuts. A roofline takes the longer of FLOPs and bytes, so it is above the line
/// of either.
struct StepFloor {
  std::vector<StepLine> lines;
  double pass_s = 0;    ///< to compute all layers for one token, the output head aside: what rebuilding its KV takes
  double project_s = 0; ///< to compute only K and V of all layers for one token, from kept hidden states

  [[nodiscard]] double decode(double context) const {
    double most = 0;
    for (const StepLine& line : lines) most = std::max(most, line.decode(context));
    return most;
  }
  [[nodiscard]] double prompt(double tokens) const {
    double most = 0;
    for (const StepLine& line : lines) most = std::max(most, line.prompt(tokens));
    return most;
  }
};

} // namespace sluice

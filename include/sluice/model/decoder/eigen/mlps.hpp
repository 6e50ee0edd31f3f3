// SPDX-License-Identifier: Apache-2.0
// GatedSilu, Relu and Experts: the MLP of a layer.
#pragma once

#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/eigen/activations.hpp"
#include "sluice/model/decoder/eigen/add_projection.hpp"
#include "sluice/model/decoder/eigen/exponential.hpp"
#include "sluice/model/decoder/eigen/output_parts.hpp"
#include "sluice/model/decoder/eigen/projection.hpp"
#include "sluice/model/decoder/thread_pool.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

namespace detail {

/// gate = silu(gate x) * up x, for all rows of x.
inline void gate_and_up(ThreadPool& pool, Activations& activations, const MlpWeights& weights,
                        const ActivationRows& x) {
  OutputParts parts;
  parts.add(weights.gate);
  pool.run(parts.count(), [&](int number, int /*thread*/) {
    const OutputParts::Part part = parts.part(number);
    project(x, weights.gate, part.first, part.last, activations.gate, activations.mlp_stride);
    project(x, weights.up, part.first, part.last, activations.up, activations.mlp_stride);
    for (int r = 0; r < x.count; ++r) {
      float* gate = activations.gate + r * activations.mlp_stride;
      const float* up = activations.up + r * activations.mlp_stride;
      for (std::int64_t i = part.first; i < part.last; i += Lanes16::count) {
        const int left = static_cast<int>(std::min<std::int64_t>(Lanes16::count, part.last - i));
        store_floats(silu(load_floats(gate + i, left)) * load_floats(up + i, left), gate + i, left);
      }
    }
  });
}

} // namespace detail

/// down(silu(gate x) * up x) (Shazeer, "GLU Variants Improve Transformer", 2020).
class GatedSilu {
 public:
  explicit GatedSilu(const DecoderConfig& /*config*/) {}
  [[nodiscard]] static Bytes workspace(const DecoderConfig& /*config*/, std::int64_t /*rows*/) { return Bytes{0}; }

  /// Adds the result for `rows` rows of `normed` to `hidden`.
  void run(ThreadPool& pool, Activations& activations, const LayerWeights& weights, const LayerVectors& vectors,
           int rows) const {
    const MlpWeights& mlp = weights.mlps[0];
    detail::gate_and_up(pool, activations, mlp, {activations.normed, activations.hidden_stride, rows});
    add_projection(pool, activations, mlp.down, vectors.down_bias, {activations.gate, activations.mlp_stride, rows});
  }
};

/// down(relu(up x)) with biases (OPT).
class Relu {
 public:
  explicit Relu(const DecoderConfig& /*config*/) {}
  [[nodiscard]] static Bytes workspace(const DecoderConfig& /*config*/, std::int64_t /*rows*/) { return Bytes{0}; }

  /// Adds the result for `rows` rows of `normed` to `hidden`.
  void run(ThreadPool& pool, Activations& activations, const LayerWeights& weights, const LayerVectors& vectors,
           int rows) const {
    const MlpWeights& mlp = weights.mlps[0];
    const ActivationRows x{activations.normed, activations.hidden_stride, rows};
    OutputParts parts;
    parts.add(mlp.up);
    pool.run(parts.count(), [&](int number, int /*thread*/) {
      const OutputParts::Part part = parts.part(number);
      project(x, mlp.up, part.first, part.last, activations.gate, activations.mlp_stride);
      for (int r = 0; r < rows; ++r) {
        float* up = activations.gate + r * activations.mlp_stride;
        add_bias(vectors.up_bias, part.first, part.last, up);
        for (std::int64_t i = part.first; i < part.last; ++i) up[i] = up[i] > 0 ? up[i] : 0;
      }
    });
    add_projection(pool, activations, mlp.down, vectors.down_bias, {activations.gate, activations.mlp_stride, rows});
  }
};

/// The best `experts_per_token` gated MLPs by the router's logits, weighted by the softmax among them (Jiang et al.,
/// "Mixtral of Experts", 2024). Among equal logits the lower expert wins; results are added in ascending order of
/// experts.
class Experts {
 public:
  explicit Experts(const DecoderConfig& config)
      : experts_(config.shape.experts),
        taken_(config.shape.experts_per_token),
        order_(static_cast<std::size_t>(config.shape.experts)) {}
  [[nodiscard]] static Bytes workspace(const DecoderConfig& config, std::int64_t rows) {
    const std::int64_t of_row =
        config.shape.experts * std::int64_t{sizeof(float)} + std::int64_t{sizeof(int)} + std::int64_t{sizeof(float)};
    return Bytes{rows * of_row + config.shape.experts * std::int64_t{sizeof(int)}};
  }

  /// Adds the result for `rows` rows of `normed` to `hidden`.
  void run(ThreadPool& pool, Activations& activations, const LayerWeights& weights, const LayerVectors& /*vectors*/,
           int rows) {
    const ActivationRows x{activations.normed, activations.hidden_stride, rows};
    OutputParts parts;
    parts.add(weights.router);
    pool.run(parts.count(), [&](int number, int /*thread*/) {
      const OutputParts::Part part = parts.part(number);
      project(x, weights.router, part.first, part.last, activations.router, activations.router_stride);
    });
    shares_.assign(static_cast<std::size_t>(rows) * static_cast<std::size_t>(experts_), -1.0F);
    for (int r = 0; r < rows; ++r) choose(activations.router + r * activations.router_stride, r);
    for (int expert = 0; expert < experts_; ++expert) {
      index_.clear();
      factors_.clear();
      for (int r = 0; r < rows; ++r) {
        const float share = shares_[share_of(r, expert)];
        if (share < 0) continue;
        index_.push_back(r);
        factors_.push_back(share);
      }
      if (index_.empty()) continue;
      const int count = static_cast<int>(index_.size());
      const MlpWeights& mlp = weights.mlps[static_cast<std::size_t>(expert)];
      detail::gate_and_up(pool, activations, mlp, {x.data, x.stride, count, index_.data()});
      add_projection(pool, activations, mlp.down, nullptr, {activations.gate, activations.mlp_stride, count},
                     index_.data(), factors_.data());
    }
  }

 private:
  [[nodiscard]] std::size_t share_of(int row, int expert) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(experts_) + static_cast<std::size_t>(expert);
  }
  void choose(const float* logits, int row) {
    for (int i = 0; i < experts_; ++i) order_[static_cast<std::size_t>(i)] = i;
    std::partial_sort(order_.begin(), order_.begin() + taken_, order_.end(),
                      [&](int a, int b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
    float total = 0;
    for (int i = 0; i < taken_; ++i) {
      const int expert = order_[static_cast<std::size_t>(i)];
      const float weight = exponential(logits[expert] - logits[order_[0]]);
      shares_[share_of(row, expert)] = weight;
      total += weight;
    }
    for (int i = 0; i < taken_; ++i) shares_[share_of(row, order_[static_cast<std::size_t>(i)])] /= total;
  }

  int experts_;
  int taken_;
  std::vector<int> order_;     // experts, best first
  std::vector<float> shares_;  // rows x experts; negative: not chosen
  std::vector<int> index_;     // the rows of the expert being computed
  std::vector<float> factors_; // the expert's shares in these rows
};

} // namespace sluice

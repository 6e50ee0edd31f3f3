// SPDX-License-Identifier: Apache-2.0
// The parts that a BasicDecoder is composed of: RmsNorm, OffsetRmsNorm, LayerNorm; Rotary, Learned; GatedSilu, Relu,
// Experts.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/eigen/activations.hpp"
#include "sluice/model/decoder/eigen/lanes.hpp"
#include "sluice/model/decoder/eigen/projection.hpp"
#include "sluice/model/decoder/thread_pool.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

// RmsNorm and LayerNorm of one row.

namespace detail {

/// The sum of `term(lanes)` over a row of `count` numbers: sixteen partial sums, then the tree. Beyond the row's end
/// `term` gets zeros, and must return zeros.
template <class Term>
[[nodiscard]] float row_sum(const float* x, std::int64_t count, const Term& term) {
  Lanes16 total = Lanes16::zero();
  for (std::int64_t at = 0; at < count; at += Lanes16::count) {
    const int left = static_cast<int>(count - at < Lanes16::count ? count - at : Lanes16::count);
    total = term(load_floats(x + at, left), total);
  }
  return sum(total);
}

} // namespace detail

/// y = x / sqrt(mean(x^2) + epsilon) * scale (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019). With
/// `Offset` the scale is 1 + `scale` (Qwen3-Next).
template <bool Offset>
struct BasicRmsNorm {
  /// `y` may be `x`.
  static void apply(const float* x, std::int64_t count, const float* scale, const float* /*bias*/, float epsilon,
                    float* y) {
    const float squares = detail::row_sum(x, count, [](const Lanes16& a, const Lanes16& b) { return fused(a, a, b); });
    const float factor = 1.0F / std::sqrt(squares / static_cast<float>(count) + epsilon);
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor * (Offset ? 1.0F + scale[i] : scale[i]);
  }
};
using RmsNorm = BasicRmsNorm<false>;
using OffsetRmsNorm = BasicRmsNorm<true>;

/// y = (x - mean(x)) / sqrt(variance(x) + epsilon) * scale + bias (Ba et al., "Layer Normalization", 2016).
struct LayerNorm {
  /// `y` may be `x`.
  static void apply(const float* x, std::int64_t count, const float* scale, const float* bias, float epsilon,
                    float* y) {
    const auto numbers = static_cast<float>(count);
    const float mean = detail::row_sum(x, count, [](const Lanes16& a, const Lanes16& b) { return a + b; }) / numbers;
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] - mean;
    const float squares = detail::row_sum(y, count, [](const Lanes16& a, const Lanes16& b) { return fused(a, a, b); });
    const float factor = 1.0F / std::sqrt(squares / numbers + epsilon);
    for (std::int64_t i = 0; i < count; ++i) y[i] = y[i] * factor * scale[i] + bias[i];
  }
};

// Rotary and Learned: how a decoder encodes a token's position.

/// RoPE (Su et al., "RoFormer", 2021) in Hugging Face's order: number i of a head rotates with number i + half, or with
/// `neighbours_rotate` number 2 i with 2 i + 1.
class Rotary {
 public:
  Rotary(const DecoderConfig& config, const Matrix& /*table*/)
      : half_(config.shape.rotated_dim() / 2),
        neighbours_(config.neighbours_rotate),
        factor_(config.rope_scaling.rotated_factor) {
    SLUICE_ASSERT(config.shape.rotated_dim() % 2 == 0, "a head of pairs");
    for (int pair = 0; pair < half_; ++pair) frequencies_.push_back(rotary_frequency(config, pair));
  }

  /// Floats that `begin` needs for this many rows.
  [[nodiscard]] std::int64_t floats(std::int64_t rows) const { return rows * 2 * half_; }
  /// Cosines and sines of the angles, computed in double: a float's angle is off by 1 % of a turn at position 10^6.
  void begin(std::span<const std::int32_t> positions, float* room) {
    room_ = room;
    for (const std::int32_t position : positions) {
      for (int pair = 0; pair < half_; ++pair) {
        const double angle = position * frequencies_[static_cast<std::size_t>(pair)];
        room[pair] = static_cast<float>(std::cos(angle) * factor_);
        room[half_ + pair] = static_cast<float>(std::sin(angle) * factor_);
      }
      room += 2 * half_;
    }
  }
  void embed(std::int32_t /*position*/, float* /*hidden*/) const {}
  /// Rotates one head of the row, or the part of it that rotates.
  void turn(int row, float* head) const {
    const float* cosines = room_ + std::int64_t{row} * 2 * half_;
    const float* sines = cosines + half_;
    const auto rotate = [&](float& low, float& high, int i) {
      const float first = low, second = high;
      low = first * cosines[i] - second * sines[i];
      high = second * cosines[i] + first * sines[i];
    };
    if (neighbours_) {
      for (int i = 0; i < half_; ++i) rotate(head[2 * i], head[2 * i + 1], i);
    } else {
      for (int i = 0; i < half_; ++i) rotate(head[i], head[half_ + i], i);
    }
  }

 private:
  int half_;
  bool neighbours_;
  double factor_;
  std::vector<double> frequencies_;
  const float* room_ = nullptr;
};

/// Adds a row of a table to the embedding (OPT: from row 2 on).
class Learned {
 public:
  Learned(const DecoderConfig& config, const Matrix& table)
      : offset_(config.position_offset), table_(table), row_(static_cast<std::size_t>(table.columns)) {}

  [[nodiscard]] std::int64_t floats(std::int64_t /*rows*/) const { return 0; }
  void begin(std::span<const std::int32_t> /*positions*/, float* /*room*/) {}
  void embed(std::int32_t position, float* hidden) {
    SLUICE_ASSERT(position >= 0 && position + offset_ < table_.rows, "a position that the table has");
    widen(table_.row(position + offset_), table_.type, table_.columns, row_.data());
    for (std::size_t i = 0; i < row_.size(); ++i) hidden[i] += row_[i];
  }
  void turn(int /*row*/, float* /*head*/) const {}

 private:
  int offset_;
  Matrix table_;
  std::vector<float> row_;
};

// GatedSilu, Relu and Experts: the MLP of a layer.

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

/// Adds the gated MLPs that the router chooses (ExpertRouting), weighted; then the shared experts as one wide MLP
/// (Jiang et al., "Mixtral of Experts", 2024; DeepSeek-AI, "DeepSeek-V3", 2024). Among equal scores the lower expert or
/// group wins; results are added in ascending order of experts. A layer without a router is a GatedSilu.
class Experts {
 public:
  explicit Experts(const DecoderConfig& config)
      : dense_(config),
        routing_(config.routing),
        experts_(config.shape.experts),
        taken_(config.shape.experts_per_token),
        has_shared_(config.shape.shared_intermediate > 0),
        scores_(static_cast<std::size_t>(experts_)),
        groups_(static_cast<std::size_t>(routing_.groups)) {
    order_.reserve(scores_.size());
  }
  [[nodiscard]] static Bytes workspace(const DecoderConfig& config, std::int64_t rows) {
    const ModelShape& shape = config.shape;
    if (shape.experts == 0) return Bytes{0};
    const std::int64_t of_row =
        shape.experts * std::int64_t{sizeof(float)} + std::int64_t{sizeof(int)} + std::int64_t{sizeof(float)};
    return Bytes{rows * of_row + shape.experts * std::int64_t{sizeof(int) + sizeof(float)} +
                 config.routing.groups * std::int64_t{sizeof(Group)}};
  }

  /// Adds the result for `rows` rows of `normed` to `hidden`.
  void run(ThreadPool& pool, Activations& activations, const LayerWeights& weights, const LayerVectors& vectors,
           int rows) {
    if (weights.router.empty()) return dense_.run(pool, activations, weights, vectors, rows);
    const ActivationRows x{activations.normed, activations.hidden_stride, rows};
    OutputParts parts;
    parts.add(weights.router);
    pool.run(parts.count(), [&](int number, int /*thread*/) {
      const OutputParts::Part part = parts.part(number);
      project(x, weights.router, part.first, part.last, activations.router, activations.router_stride);
    });
    shares_.assign(static_cast<std::size_t>(rows) * scores_.size(), -1.0F);
    for (int r = 0; r < rows; ++r)
      choose(activations.router + r * activations.router_stride, vectors.router_bias,
             shares_.data() + static_cast<std::size_t>(r) * scores_.size());
    for (int expert = 0; expert < experts_; ++expert) {
      index_.clear();
      factors_.clear();
      for (int r = 0; r < rows; ++r) {
        const float share = shares_[static_cast<std::size_t>(r) * scores_.size() + static_cast<std::size_t>(expert)];
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
    if (has_shared_) add_shared(pool, activations, weights, x);
  }

 private:
  struct Group {
    int number = 0;
    float score = 0;
  };

  void add_shared(ThreadPool& pool, Activations& activations, const LayerWeights& weights, const ActivationRows& x) {
    const bool gated = !weights.shared_gate.empty();
    if (gated) {
      factors_.resize(static_cast<std::size_t>(x.count));
      project(x, weights.shared_gate, 0, 1, factors_.data(), 1);
      for (float& factor : factors_) factor = sigmoid(factor);
    }
    const MlpWeights& mlp = weights.mlps[static_cast<std::size_t>(experts_)];
    detail::gate_and_up(pool, activations, mlp, x);
    add_projection(pool, activations, mlp.down, nullptr, {activations.gate, activations.mlp_stride, x.count}, nullptr,
                   gated ? factors_.data() : nullptr);
  }

  [[nodiscard]] static float sigmoid(float x) { return 1.0F / (1.0F + exponential(-x)); }

  /// The weights of a row's experts in `shares`, which are negative for the others. Logits order experts as their
  /// softmax does.
  void choose(const float* logits, const float* bias, float* shares) {
    const bool softmax = routing_.score == RouterScore::softmax;
    for (std::size_t i = 0; i < scores_.size(); ++i)
      scores_[i] = softmax ? logits[i] : sigmoid(logits[i]) + (bias != nullptr ? bias[i] : 0);
    find_candidates();
    const auto better = [&](int a, int b) {
      const float one = scores_[static_cast<std::size_t>(a)], other = scores_[static_cast<std::size_t>(b)];
      return one > other || (one == other && a < b);
    };
    std::partial_sort(order_.begin(), order_.begin() + taken_, order_.end(), better);
    const auto weight = [&](int expert) { // the best of all experts is in the best group
      return softmax ? exponential(logits[expert] - logits[order_[0]]) : sigmoid(logits[expert]);
    };
    float total = softmax || routing_.normalised ? 0.0F : 1.0F;
    for (int i = 0; i < taken_; ++i) {
      const int expert = order_[static_cast<std::size_t>(i)];
      shares[expert] = weight(expert);
      if (routing_.normalised) total += shares[expert];
    }
    if (softmax && !routing_.normalised)
      for (int expert = 0; expert < experts_; ++expert) total += weight(expert);
    if (!softmax && routing_.normalised) total += 1e-20F; // as DeepSeek's class does: scores may all be 0
    for (int i = 0; i < taken_; ++i) {
      float& share = shares[order_[static_cast<std::size_t>(i)]];
      share = share / total * static_cast<float>(routing_.scale);
    }
  }
  /// The experts of the best groups, in `order_`.
  void find_candidates() {
    const int of_group = experts_ / routing_.groups;
    for (int g = 0; g < routing_.groups; ++g) {
      const float* const scores = scores_.data() + g * of_group;
      float best = scores[0], second = -std::numeric_limits<float>::infinity();
      for (int i = 1; i < of_group; ++i) {
        second = std::max(second, std::min(best, scores[i]));
        best = std::max(best, scores[i]);
      }
      groups_[static_cast<std::size_t>(g)] = {g, routing_.group_scores == 1 ? best : best + second};
    }
    const auto better = [](const Group& a, const Group& b) {
      return a.score > b.score || (a.score == b.score && a.number < b.number);
    };
    std::partial_sort(groups_.begin(), groups_.begin() + routing_.groups_per_token, groups_.end(), better);
    order_.clear();
    for (int g = 0; g < routing_.groups_per_token; ++g)
      for (int i = 0; i < of_group; ++i) order_.push_back(groups_[static_cast<std::size_t>(g)].number * of_group + i);
  }

  GatedSilu dense_;
  ExpertRouting routing_;
  int experts_;
  int taken_;
  bool has_shared_;
  std::vector<float> scores_;  // of a row, by expert
  std::vector<Group> groups_;  // of a row, best first
  std::vector<int> order_;     // the experts of its best groups, best first
  std::vector<float> shares_;  // rows x experts; negative: not chosen
  std::vector<int> index_;     // the rows of the expert being computed
  std::vector<float> factors_; // the expert's shares in these rows
};

} // namespace sluice

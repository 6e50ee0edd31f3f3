// SPDX-License-Identifier: Apache-2.0
// Activations: the memory of an iteration's rows, and a layer's vectors as floats.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/eigen/lanes.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace sluice {

/// The size of the widest MLP between its matrices.
[[nodiscard]] constexpr std::int64_t mlp_width(const ModelShape& shape) {
  if (shape.experts == 0) return shape.mlp;
  return std::max({shape.moe_intermediate, shape.shared_intermediate, shape.dense.empty() ? 0 : shape.mlp});
}

/// The stride of rows of activations in floats: rows start on a cache line, and are rarely a multiple of 4 KiB apart,
/// because such lines evict each other from the first-level cache.
[[nodiscard]] constexpr std::int64_t activation_stride(std::int64_t width) { return (width + 15) / 16 * 16 + 16; }

/// Row-major matrices of so many rows, in one allocation. The matrices of attention and MLP are never needed together,
/// and share memory.
class Activations {
 public:
  explicit Activations(const ModelShape& shape)
      : hidden_stride(activation_stride(shape.hidden)),
        query_stride(activation_stride(
            std::max(std::int64_t{shape.heads} * std::max({shape.head_dim, shape.kv_width(), shape.value_dim()}),
                     std::int64_t{shape.delta.value_heads} * shape.delta.value_dim))),
        key_stride(activation_stride(std::int64_t{shape.kv_heads} * shape.kv_width())),
        value_stride(shape.has_latents() ? activation_stride(shape.latent.query_rank) : key_stride),
        mlp_stride(activation_stride(mlp_width(shape))),
        router_stride(shape.experts > 0 ? activation_stride(shape.experts) : 0),
        mixed_stride(shape.has_states()
                         ? activation_stride(std::max(2 * shape.heads * shape.head_dim, shape.delta.channels()))
                         : 0),
        rates_stride(shape.has_states() ? activation_stride(2 * shape.delta.value_heads) : 0),
        gated_(shape.gated_mlp) {}

  const std::int64_t hidden_stride;
  const std::int64_t query_stride;
  const std::int64_t key_stride;
  const std::int64_t value_stride;
  const std::int64_t mlp_stride;
  const std::int64_t router_stride;
  const std::int64_t mixed_stride; ///< 0 without layers of the gated delta rule
  const std::int64_t rates_stride; ///< the same

  float* hidden = nullptr;    ///< the residual stream
  float* normed = nullptr;    ///< input of a layer's matrices
  float* projected = nullptr; ///< output that is added to the residual stream
  float* query = nullptr;
  float* key = nullptr;
  float* value = nullptr; ///< in latent attention what `query_down` projects
  float* attended = nullptr;
  float* mixed = nullptr;     ///< delta rule: channels; in its model's other layers, each head's query and gate
  float* convolved = nullptr; ///< channels
  float* gates = nullptr;     ///< of what heads read or attend, rows of `query_stride`
  float* rates = nullptr;     ///< the value heads' updates, then their decays
  float* gate = nullptr;      ///< then also the input of `down`; an MLP without gates uses only this
  float* up = nullptr;
  float* router = nullptr;

  /// Floats for this many rows.
  [[nodiscard]] std::int64_t floats(std::int64_t rows) const {
    return rows * (3 * hidden_stride + router_stride + std::max(attention_floats(), mlp_floats())) + alignment;
  }
  /// Makes room for this many rows; their old contents are lost.
  void reserve(std::int64_t rows) {
    if (rows <= rows_) return;
    room_ = {}; // frees the old room before allocating the new
    room_.resize(static_cast<std::size_t>(floats(rows)));
    rows_ = rows;
    float* next = aligned(room_.data(), alignment * sizeof(float));
    const auto take = [&](std::int64_t stride) {
      float* here = next;
      next += rows * stride;
      return here;
    };
    hidden = take(hidden_stride);
    normed = take(hidden_stride);
    projected = take(hidden_stride);
    router = take(router_stride);
    float* shared = next;
    query = take(query_stride);
    key = take(key_stride);
    value = take(value_stride);
    attended = take(query_stride);
    mixed = take(mixed_stride);
    convolved = take(mixed_stride);
    gates = take(mixed_stride > 0 ? query_stride : 0);
    rates = take(rates_stride);
    next = shared;
    gate = take(mlp_stride);
    up = gated_ ? take(mlp_stride) : gate;
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }

 private:
  static constexpr std::int64_t alignment = 16; // floats: 64 bytes

  [[nodiscard]] std::int64_t attention_floats() const {
    return (mixed_stride > 0 ? 3 : 2) * query_stride + key_stride + value_stride + 2 * mixed_stride + rates_stride;
  }
  [[nodiscard]] std::int64_t mlp_floats() const { return (gated_ ? 2 : 1) * mlp_stride; }

  bool gated_;
  std::int64_t rows_ = 0;
  std::vector<float> room_;
};

/// A layer's norms and biases as floats; null if the layer has none.
class LayerVectors {
 public:
  const float* attention_norm = nullptr;
  const float* attention_norm_bias = nullptr;
  const float* query_bias = nullptr;
  const float* key_bias = nullptr;
  const float* value_bias = nullptr;
  const float* output_bias = nullptr;
  const float* query_norm = nullptr;
  const float* key_norm = nullptr;
  const float* mlp_norm = nullptr;
  const float* mlp_norm_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
  const float* decay_log = nullptr;
  const float* decay_bias = nullptr;
  const float* state_norm = nullptr;
  const float* convolution = nullptr; ///< [channel][kernel]
  const float* router_bias = nullptr;

  explicit LayerVectors(const ModelShape& shape) : room_(static_cast<std::size_t>(floats(shape))) {}
  LayerVectors(const LayerVectors&) = delete;
  LayerVectors& operator=(const LayerVectors&) = delete;
  ~LayerVectors() = default;

  [[nodiscard]] static std::int64_t floats(const ModelShape& shape) {
    const DeltaRule& delta = shape.delta;
    const std::int64_t norms = shape.has_latents() ? shape.latent.query_rank + shape.latent.rank : 2 * shape.head_dim;
    return std::int64_t{6} * shape.hidden + std::int64_t{shape.heads} * shape.head_dim +
           std::int64_t{2} * shape.kv_heads * shape.head_dim + norms + mlp_width(shape) + shape.experts +
           std::int64_t{2} * delta.value_heads + delta.value_dim + std::int64_t{delta.channels()} * delta.kernel;
  }
  /// Reads the layer's vectors.
  void read(const LayerWeights& layer) {
    float* next = room_.data();
    const auto take = [&](const Matrix& vector) -> const float* {
      if (vector.empty()) return nullptr;
      float* here = next;
      for (std::int64_t row = 0; row < vector.rows; ++row) { // a convolution has some
        float* to = std::exchange(next, next + vector.columns);
        SLUICE_ASSERT(next <= room_.data() + room_.size(), "vectors of the shape's sizes");
        widen(vector.row(row), vector.type, vector.columns, to);
      }
      return here;
    };
    attention_norm = take(layer.attention_norm);
    attention_norm_bias = take(layer.attention_norm_bias);
    query_bias = take(layer.query_bias);
    key_bias = take(layer.key_bias);
    value_bias = take(layer.value_bias);
    output_bias = take(layer.output_bias);
    query_norm = take(layer.query_norm);
    key_norm = take(layer.key_norm);
    mlp_norm = take(layer.mlp_norm);
    mlp_norm_bias = take(layer.mlp_norm_bias);
    up_bias = take(layer.up_bias);
    down_bias = take(layer.down_bias);
    decay_log = take(layer.decay_log);
    decay_bias = take(layer.decay_bias);
    state_norm = take(layer.state_norm);
    convolution = take(layer.convolution);
    router_bias = take(layer.router_bias);
  }

 private:
  std::vector<float> room_;
};

/// y += bias over the columns `first` .. `last` - 1; does nothing without a bias.
inline void add_bias(const float* bias, std::int64_t first, std::int64_t last, float* y) {
  if (bias == nullptr) return;
  for (std::int64_t i = first; i < last; ++i) y[i] += bias[i];
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// A decoder in double precision, written apart: whole matrices, each token's results in a list. Only attention and the
// choice of experts differ between tests.
#pragma once

#include "sluice/model/decoder/eigen/make_decoder.hpp"

#include "model/decoder/made_sequence.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

namespace sluice::testing {

using Vector = std::vector<double>;

inline double number(const Matrix& of, std::int64_t row, std::int64_t column) {
  float value = 0;
  std::memcpy(&value, of.row(row) + column * std::int64_t{sizeof value}, sizeof value);
  return static_cast<double>(value);
}
inline Vector vector_of(const Matrix& of, std::int64_t row = 0) {
  Vector values;
  for (std::int64_t c = 0; c < of.columns; ++c) values.push_back(number(of, row, c));
  return values;
}
inline Vector product(const Matrix& of, const Vector& with, const Matrix& bias = {}) {
  Vector result;
  for (std::int64_t r = 0; r < of.rows; ++r) {
    double sum = bias.empty() ? 0 : number(bias, 0, r);
    for (std::int64_t c = 0; c < of.columns; ++c) sum += number(of, r, c) * with[static_cast<std::size_t>(c)];
    result.push_back(sum);
  }
  return result;
}
/// `offset`: added to the scales.
inline void normalise(double* values, std::size_t count, const Matrix& scale, double epsilon, double offset = 0) {
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) squares += values[i] * values[i];
  const double root = std::sqrt(squares / static_cast<double>(count) + epsilon);
  for (std::size_t i = 0; i < count; ++i) values[i] *= (offset + number(scale, 0, static_cast<std::int64_t>(i))) / root;
}
inline Vector normalised(Vector values, const Matrix& scale, double epsilon, double offset = 0) {
  normalise(values.data(), values.size(), scale, epsilon, offset);
  return values;
}

/// What a layer's attention adds to every token's stream, from the normalised streams.
using Attend = std::function<std::vector<Vector>(int layer, const LayerWeights& weights, const std::vector<Vector>& x)>;

/// A token's weight of each expert, from its router's logits; 0: not chosen.
using Weigh = std::function<Vector(const Vector& logits, const LayerWeights& weights)>;

/// down(silu(gate y) * up y).
inline Vector doubled_mlp(const MlpWeights& of, const Vector& y) {
  const Vector gate = product(of.gate, y), up = product(of.up, y);
  Vector inner;
  for (std::size_t i = 0; i < up.size(); ++i) inner.push_back(gate[i] / (1 + std::exp(-gate[i])) * up[i]);
  return product(of.down, inner);
}

/// The logits of every token, for gated MLPs and, by `weigh`, layers of experts.
inline std::vector<Vector> doubled_logits(const MadeModel& model, const std::vector<std::int32_t>& tokens,
                                          const Attend& attend, const Weigh& weigh = {}) {
  const auto epsilon = static_cast<double>(model.weights.config.norm_epsilon);
  const double offset = model.weights.config.norm == NormKind::rms_offset ? 1 : 0;
  std::vector<Vector> stream;
  for (const std::int32_t token : tokens) stream.push_back(vector_of(model.weights.embedding, token));
  for (int l = 0; l < model.weights.config.shape.layers; ++l) {
    const LayerWeights w = model.layer(l);
    std::vector<Vector> normed;
    for (const Vector& x : stream) normed.push_back(normalised(x, w.attention_norm, epsilon, offset));
    const std::vector<Vector> attended = attend(l, w, normed);
    for (std::size_t t = 0; t < stream.size(); ++t)
      for (std::size_t i = 0; i < stream[t].size(); ++i) stream[t][i] += attended[t][i];
    for (Vector& x : stream) {
      const Vector y = normalised(x, w.mlp_norm, epsilon, offset);
      Vector factors{1}; // of each MLP
      if (!w.router.empty()) {
        factors = weigh(product(w.router, y), w);
        const double gate = w.shared_gate.empty() ? 0 : product(w.shared_gate, y)[0];
        factors.push_back(w.shared_gate.empty() ? 1 : 1 / (1 + std::exp(-gate)));
      }
      for (std::size_t m = 0; m < w.mlps.size(); ++m) {
        const Vector out = doubled_mlp(w.mlps[m], y);
        for (std::size_t i = 0; i < out.size(); ++i) x[i] += factors[m] * out[i];
      }
    }
  }
  for (Vector& x : stream) x = product(model.weights.head, normalised(x, model.weights.final_norm, epsilon, offset));
  return stream;
}

inline std::vector<std::int32_t> some_tokens(int count, int vocabulary) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((7 * i * i + 13 * i + 5) % vocabulary);
  return tokens;
}

/// The decoder's logits are within 1e-4 of the largest of these, in one piece and in chunks.
inline void check_agrees(const MadeModel& model, const std::vector<std::int32_t>& tokens,
                         const std::vector<Vector>& expected) {
  for (const std::size_t chunk : {tokens.size(), std::size_t{19}, std::size_t{1}}) {
    CAPTURE(chunk);
    const auto decoder = make_decoder(model.weights, Tokens{block_tokens}, 2);
    SequenceKv kv{model.weights.config, static_cast<int>(tokens.size())};
    double worst = 0, magnitude = 0;
    for (std::size_t at = 0; at < tokens.size(); at += chunk) {
      const std::size_t count = std::min(chunk, tokens.size() - at);
      const auto rows = pass(*decoder, model, kv, std::span{tokens}.subspan(at, count), static_cast<int>(at));
      for (std::size_t r = 0; r < rows.size(); ++r)
        for (std::size_t i = 0; i < rows[r].size(); ++i) {
          const double off = std::abs(static_cast<double>(rows[r][i]) - expected[at + r][i]);
          worst = off <= worst ? worst : off; // a NaN is the worst error
          magnitude = std::max(magnitude, std::abs(expected[at + r][i]));
        }
    }
    CHECK(worst <= 1e-4 * magnitude);
  }
}

/// Weights that lie anywhere, as the images of layers.
inline MadeModel made_of(const ModelWeights& weights) {
  MadeModel made{family_config("llama2"), ElementType::f32};
  made.weights = weights;
  made.images.clear();
  for (int layer = 0; layer < weights.config.shape.layers; ++layer) {
    MadeModel::Image image(static_cast<std::size_t>(weights.layout.bytes.count()));
    const std::vector<TensorPlace>& places = weights.layout_at(layer).places;
    for (std::size_t i = 0; i < places.size(); ++i)
      std::copy_n(weights.layers[static_cast<std::size_t>(layer)][i], places[i].bytes(),
                  image.begin() + places[i].offset);
    made.images.push_back(std::move(image));
  }
  return made;
}

inline std::vector<std::vector<float>> logits_of(const MadeModel& model, const std::vector<std::int32_t>& tokens) {
  const auto decoder = make_decoder(model.weights, Tokens{block_tokens}, 2);
  SequenceKv kv{model.weights.config, static_cast<int>(tokens.size())};
  return pass(*decoder, model, kv, tokens, 0);
}

/// The largest difference between two tokens' logits.
inline double apart(const Vector& a, const Vector& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

} // namespace sluice::testing

// SPDX-License-Identifier: Apache-2.0
// Sliding windows by layer: logits agree with a decoder in double precision that is written apart, from whole matrices.
#include "sluice/model/decoder/eigen/make_decoder.hpp"

#include "model/decoder/made_sequence.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::testing;

using Vector = std::vector<double>;

double number(const Matrix& of, std::int64_t row, std::int64_t column) {
  float value = 0;
  std::memcpy(&value, of.row(row) + column * std::int64_t{sizeof value}, sizeof value);
  return static_cast<double>(value);
}
Vector vector_of(const Matrix& of, std::int64_t row = 0) {
  Vector values;
  for (std::int64_t c = 0; c < of.columns; ++c) values.push_back(number(of, row, c));
  return values;
}
Vector product(const Matrix& of, const Vector& with, const Matrix& bias = {}) {
  Vector result;
  for (std::int64_t r = 0; r < of.rows; ++r) {
    double sum = bias.empty() ? 0 : number(bias, 0, r);
    for (std::int64_t c = 0; c < of.columns; ++c) sum += number(of, r, c) * with[static_cast<std::size_t>(c)];
    result.push_back(sum);
  }
  return result;
}
void normalise(double* values, std::size_t count, const Matrix& scale, double epsilon) {
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) squares += values[i] * values[i];
  const double root = std::sqrt(squares / static_cast<double>(count) + epsilon);
  for (std::size_t i = 0; i < count; ++i) values[i] *= number(scale, 0, static_cast<std::int64_t>(i)) / root;
}
Vector normalised(Vector values, const Matrix& scale, double epsilon) {
  normalise(values.data(), values.size(), scale, epsilon);
  return values;
}
void rotate(const DecoderConfig& config, int position, double* head) {
  const int half = config.shape.head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const double angle = position * rotary_frequency(config, i);
    const double x = head[i], y = head[i + half];
    head[i] = x * std::cos(angle) - y * std::sin(angle);
    head[i + half] = y * std::cos(angle) + x * std::sin(angle);
  }
}

/// The logits of every token: layer by layer, each token's K and V kept in a list, the window a bound of a loop.
std::vector<Vector> reference(const MadeModel& model, const std::vector<std::int32_t>& tokens) {
  const DecoderConfig& config = model.weights.config;
  const ModelShape& shape = config.shape;
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  const double epsilon = static_cast<double>(config.norm_epsilon);
  std::vector<Vector> stream;
  for (const std::int32_t token : tokens) stream.push_back(vector_of(model.weights.embedding, token));
  for (int l = 0; l < shape.layers; ++l) {
    const LayerWeights w = model.layer(l);
    std::vector<Vector> keys, values;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const Vector x = normalised(stream[t], w.attention_norm, epsilon);
      Vector query = product(w.query, x, w.query_bias), key = product(w.key, x, w.key_bias);
      values.push_back(product(w.value, x, w.value_bias));
      for (auto [heads, norm] : {std::pair{&query, &w.query_norm}, std::pair{&key, &w.key_norm}})
        for (std::size_t at = 0; at < heads->size(); at += dim) {
          if (config.query_key_norm) normalise(heads->data() + at, dim, *norm, epsilon);
          rotate(config, static_cast<int>(t), heads->data() + at);
        }
      keys.push_back(std::move(key));
      const auto window = static_cast<std::size_t>(config.window(l));
      const std::size_t first = window > 0 && t + 1 > window ? t + 1 - window : 0;
      Vector attended(query.size(), 0.0);
      for (std::size_t h = 0; h < static_cast<std::size_t>(shape.heads); ++h) {
        const std::size_t kv = h / static_cast<std::size_t>(shape.heads / shape.kv_heads) * dim;
        double total = 0;
        for (std::size_t s = first; s <= t; ++s) {
          double score = 0;
          for (std::size_t d = 0; d < dim; ++d) score += query[h * dim + d] * keys[s][kv + d];
          const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
          total += weight;
          for (std::size_t d = 0; d < dim; ++d) attended[h * dim + d] += weight * values[s][kv + d];
        }
        for (std::size_t d = 0; d < dim; ++d) attended[h * dim + d] /= total;
      }
      const Vector out = product(w.output, attended, w.output_bias);
      for (std::size_t i = 0; i < out.size(); ++i) stream[t][i] += out[i];
    }
    for (Vector& x : stream) {
      const Vector y = normalised(x, w.mlp_norm, epsilon);
      const Vector gate = product(w.mlps[0].gate, y), up = product(w.mlps[0].up, y);
      Vector inner;
      for (std::size_t i = 0; i < up.size(); ++i) inner.push_back(gate[i] / (1 + std::exp(-gate[i])) * up[i]);
      const Vector out = product(w.mlps[0].down, inner);
      for (std::size_t i = 0; i < out.size(); ++i) x[i] += out[i];
    }
  }
  for (Vector& x : stream) x = product(model.weights.head, normalised(x, model.weights.final_norm, epsilon));
  return stream;
}

} // namespace

TEST_CASE("windows by layer: logits agree with double precision to 1e-4 of the largest, in one piece and in chunks") {
  for (const char* const family : {"llama2", "llama3", "qwen2", "qwen3"}) {
    DecoderConfig config = family_config(family);
    double changed = 0; // by the windows
    for (const std::vector<int>& windows : {std::vector<int>{}, {7, 0, 20}, {1, 1, 1}, {0, 64, 33}}) {
      config.windows = windows;
      CAPTURE(family);
      const MadeModel model{config, ElementType::f32};
      std::vector<std::int32_t> tokens;
      for (int i = 0; i < 83; ++i) tokens.push_back((7 * i * i + 13 * i + 5) % config.shape.vocabulary);
      const std::vector<Vector> expected = reference(model, tokens);
      for (const int chunk : {83, 19, 1}) {
        CAPTURE(chunk);
        const auto decoder = make_decoder(model.weights, Tokens{block_tokens}, 2);
        SequenceKv kv{config, static_cast<int>(tokens.size())};
        double worst = 0, magnitude = 0;
        for (std::size_t at = 0; at < tokens.size(); at += static_cast<std::size_t>(chunk)) {
          const std::size_t count = std::min(static_cast<std::size_t>(chunk), tokens.size() - at);
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
      if (windows.empty()) continue;
      config.windows = {};
      const MadeModel whole{config, ElementType::f32};
      const Vector with = expected.back(), without = reference(whole, tokens).back();
      for (std::size_t i = 0; i < with.size(); ++i) changed = std::max(changed, std::abs(with[i] - without[i]));
    }
    CHECK(changed > 0.01); // or the windows would not be seen
  }
}

// SPDX-License-Identifier: Apache-2.0
// Sliding windows by layer: logits agree with a decoder in double precision.
#include "model/decoder/doubled.hpp"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::testing;

void rotate(const DecoderConfig& config, int position, double* head) {
  const int half = config.shape.head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const double angle = position * rotary_frequency(config, i);
    const double x = head[i], y = head[i + half];
    head[i] = x * std::cos(angle) - y * std::sin(angle);
    head[i + half] = y * std::cos(angle) + x * std::sin(angle);
  }
}

/// The window is a bound of a loop.
std::vector<Vector> with_windows(const MadeModel& model, const std::vector<std::int32_t>& tokens) {
  const DecoderConfig& config = model.weights.config;
  const ModelShape& shape = config.shape;
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  const auto epsilon = static_cast<double>(config.norm_epsilon);
  return doubled_logits(model, tokens, [&](int l, const LayerWeights& w, const std::vector<Vector>& normed) {
    std::vector<Vector> keys, values, results;
    for (std::size_t t = 0; t < normed.size(); ++t) {
      const Vector& x = normed[t];
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
      results.push_back(product(w.output, attended, w.output_bias));
    }
    return results;
  });
}

} // namespace

TEST_CASE("windows by layer: logits agree with double precision to 1e-4 of the largest, in one piece and in chunks") {
  for (const char* const family : {"llama2", "llama3", "qwen2", "qwen3"}) {
    DecoderConfig config = family_config(family);
    const std::vector<std::int32_t> tokens = some_tokens(83, config.shape.vocabulary);
    double changed = 0; // by the windows
    for (const std::vector<int>& windows : {std::vector<int>{}, {7, 0, 20}, {1, 1, 1}, {0, 64, 33}}) {
      config.windows = windows;
      CAPTURE(family);
      const MadeModel model{config, ElementType::f32};
      const std::vector<Vector> expected = with_windows(model, tokens);
      check_agrees(model, tokens, expected);
      if (windows.empty()) continue;
      config.windows = {};
      const MadeModel whole{config, ElementType::f32};
      changed = std::max(changed, apart(expected.back(), with_windows(whole, tokens).back()));
    }
    CHECK(changed > 0.01); // or the windows would not be seen
  }
}

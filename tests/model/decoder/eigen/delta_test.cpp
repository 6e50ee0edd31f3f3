// SPDX-License-Identifier: Apache-2.0
// The gated delta rule: logits agree with a decoder in double precision that keeps whole lists of tokens, written from
// Hugging Face's `Qwen3NextGatedDeltaNet` and `Qwen3NextAttention`.
#include "model/decoder/doubled.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::testing;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Vector unit(const double* from, int count) {
  double squares = 0;
  for (int i = 0; i < count; ++i) squares += from[i] * from[i];
  Vector to;
  for (int i = 0; i < count; ++i) to.push_back(from[i] / std::sqrt(squares + 1e-6));
  return to;
}

/// S as rows of numbers: the state of one value head.
using State = std::vector<Vector>;

std::vector<Vector> recurrent(const DecoderConfig& config, const LayerWeights& w, const std::vector<Vector>& x) {
  const DeltaRule& delta = config.shape.delta;
  const auto keys = static_cast<std::size_t>(delta.key_dim), values = static_cast<std::size_t>(delta.value_dim);
  const int all_keys = delta.key_heads * delta.key_dim;
  const auto epsilon = static_cast<double>(config.norm_epsilon);
  std::vector<Vector> inputs, results;
  std::vector<State> states(static_cast<std::size_t>(delta.value_heads), State(keys, Vector(values, 0.0)));
  for (const Vector& token : x) {
    inputs.push_back(product(w.mixed, token));
    Vector mixed;
    for (int c = 0; c < delta.channels(); ++c) {
      double sum = 0;
      for (int back = 0; back < delta.kernel && back < static_cast<int>(inputs.size()); ++back)
        sum += number(w.convolution, c, delta.kernel - 1 - back) *
               inputs[inputs.size() - 1 - static_cast<std::size_t>(back)][static_cast<std::size_t>(c)];
      mixed.push_back(sum * sigmoid(sum));
    }
    const Vector gates = product(w.state_gate, token), updates = product(w.update, token);
    const Vector decays = product(w.decay, token);
    Vector read;
    for (int head = 0; head < delta.value_heads; ++head) {
      const int key_head = head * delta.key_heads / delta.value_heads;
      const Vector query = unit(mixed.data() + key_head * delta.key_dim, delta.key_dim);
      const Vector key = unit(mixed.data() + all_keys + key_head * delta.key_dim, delta.key_dim);
      const double* value = mixed.data() + 2 * all_keys + head * delta.value_dim;
      const auto h = static_cast<std::size_t>(head);
      const double rate =
          std::exp(number(w.decay_log, 0, head)) * std::log(1 + std::exp(decays[h] + number(w.decay_bias, 0, head)));
      State& state = states[h];
      Vector sum(values, 0.0);
      for (std::size_t v = 0; v < values; ++v) {
        double known = 0;
        for (std::size_t k = 0; k < keys; ++k) known += key[k] * (state[k][v] *= std::exp(-rate));
        const double change = (value[v] - known) * sigmoid(updates[h]);
        for (std::size_t k = 0; k < keys; ++k) {
          state[k][v] += key[k] * change;
          sum[v] += query[k] * state[k][v] / std::sqrt(static_cast<double>(keys));
        }
      }
      normalise(sum.data(), values, w.state_norm, epsilon);
      for (std::size_t v = 0; v < values; ++v) {
        const double gate = gates[h * values + v];
        read.push_back(sum[v] * gate * sigmoid(gate));
      }
    }
    results.push_back(product(w.output, read));
  }
  return results;
}

void turn(const DecoderConfig& config, int position, double* head) {
  const int half = config.shape.rotated / 2;
  for (int i = 0; i < half; ++i) {
    const double angle = position / std::pow(config.rope_theta, 2.0 * i / config.shape.rotated);
    const double a = head[i], b = head[i + half];
    head[i] = a * std::cos(angle) - b * std::sin(angle);
    head[i + half] = b * std::cos(angle) + a * std::sin(angle);
  }
}

std::vector<Vector> attending(const DecoderConfig& config, const LayerWeights& w, const std::vector<Vector>& x) {
  const ModelShape& shape = config.shape;
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  const auto epsilon = static_cast<double>(config.norm_epsilon);
  std::vector<Vector> keys, values, results;
  for (std::size_t t = 0; t < x.size(); ++t) {
    const Vector both = product(w.query, x[t]);
    keys.push_back(product(w.key, x[t]));
    values.push_back(product(w.value, x[t]));
    for (std::size_t at = 0; at < keys[t].size(); at += dim) {
      normalise(keys[t].data() + at, dim, w.key_norm, epsilon, 1);
      turn(config, static_cast<int>(t), keys[t].data() + at);
    }
    Vector attended;
    for (std::size_t h = 0; h < static_cast<std::size_t>(shape.heads); ++h) {
      Vector query(both.begin() + static_cast<std::ptrdiff_t>(2 * h * dim),
                   both.begin() + static_cast<std::ptrdiff_t>((2 * h + 1) * dim));
      normalise(query.data(), dim, w.query_norm, epsilon, 1);
      turn(config, static_cast<int>(t), query.data());
      const std::size_t kv = h / static_cast<std::size_t>(shape.heads / shape.kv_heads) * dim;
      Vector sum(dim, 0.0);
      double total = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        double score = 0;
        for (std::size_t d = 0; d < dim; ++d) score += query[d] * keys[s][kv + d];
        const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
        total += weight;
        for (std::size_t d = 0; d < dim; ++d) sum[d] += weight * values[s][kv + d];
      }
      for (std::size_t d = 0; d < dim; ++d) attended.push_back(sum[d] / total * sigmoid(both[(2 * h + 1) * dim + d]));
    }
    results.push_back(product(w.output, attended));
  }
  return results;
}

std::vector<Vector> delta_logits(const MadeModel& model, const std::vector<std::int32_t>& tokens) {
  const DecoderConfig& config = model.weights.config;
  return doubled_logits(model, tokens, [&](int layer, const LayerWeights& w, const std::vector<Vector>& x) {
    return config.shape.delta.layers.contains(layer) ? recurrent(config, w, x) : attending(config, w, x);
  });
}

} // namespace

TEST_CASE(
    "the gated delta rule: logits agree with double precision to 1e-4 of the largest, in one piece and in chunks") {
  const DeltaRule kinds[] = {
      {.key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 20, .kernel = 4}, // not whole registers
      {.key_heads = 3, .value_heads = 3, .key_dim = 32, .value_dim = 16, .kernel = 2},
      {.key_heads = 1, .value_heads = 5, .key_dim = 3, .value_dim = 37, .kernel = 8}, // larger than K and V
  };
  for (const DeltaRule& delta : kinds) {
    DecoderConfig config = family_config("qwen3_next");
    const LayerSet layers = config.shape.delta.layers;
    config.shape.delta = delta;
    config.shape.delta.layers = layers;
    CAPTURE(delta.key_dim);
    const MadeModel model{config, ElementType::f32};
    const std::vector<std::int32_t> tokens = some_tokens(83, config.shape.vocabulary);
    check_agrees(model, tokens, delta_logits(model, tokens));
  }
}

TEST_CASE("a state matters: without it the last token's logits are others") {
  const DecoderConfig config = family_config("qwen3_next");
  const MadeModel model{config, ElementType::f32};
  const std::vector<std::int32_t> tokens = some_tokens(40, config.shape.vocabulary);
  const std::vector<std::int32_t> end(tokens.end() - 8, tokens.end());
  CHECK(apart(delta_logits(model, tokens).back(), delta_logits(model, end).back()) > 0.01);
}

TEST_CASE("a prefix that passes again rebuilds missing states, leaves the others, and changes no logit") {
  const DecoderConfig config = family_config("qwen3_next");
  const MadeModel model{config, ElementType::f32};
  constexpr int count = 40, last = count - 1, prefix = 2 * block_tokens;
  const std::vector<std::int32_t> tokens = some_tokens(count, config.shape.vocabulary);
  const auto decoder = make_decoder(model.weights, Tokens{block_tokens}, 2);
  SequenceKv whole{config, count}, kv{config, count};
  std::vector<float> expected;
  for (int t = 0; t < count; ++t) {
    if (t == last) // the states before the last token
      for (std::size_t layer = 0; layer < kv.layers.size(); ++layer)
        for (std::size_t block = 0; block < kv.layers[layer].size(); ++block)
          std::copy_n(whole.block(layer, block),
                      static_cast<std::size_t>(kv_block_floats(config.shape, Tokens{block_tokens})),
                      kv.block(layer, block));
    expected = pass(*decoder, model, whole, std::span{tokens}.subspan(static_cast<std::size_t>(t), 1), t).front();
  }
  const auto lose = [&](std::size_t layer, std::size_t block) {
    std::fill_n(kv.block(layer, block), config.shape.delta.numbers(), std::numeric_limits<float>::quiet_NaN());
  };
  lose(0, 0);
  lose(0, 1);
  lose(2, 0);
  std::vector<std::int32_t> ids{tokens[last]}, positions{last};
  for (int t = 0; t < prefix; ++t) {
    ids.push_back(tokens[static_cast<std::size_t>(t)]);
    positions.push_back(t);
  }
  decoder->begin(ids, positions);
  for (int layer = 0; layer < config.shape.layers; ++layer) {
    std::byte* const* blocks = kv.layers[static_cast<std::size_t>(layer)].data();
    const SequenceRows fresh{0, 1, last, blocks, last}, made{1, prefix, 0, blocks, 0},
        passes{1, prefix, 0, blocks, prefix};
    const SequenceRows first{1, block_tokens, 0, blocks, 0},
        second{1 + block_tokens, block_tokens, block_tokens, blocks, prefix};
    const std::vector<SequenceRows> rows[] = {{fresh, made}, {passes, fresh}, {second, fresh, first}, {fresh}};
    decoder->layer(layer, model.layer(layer), rows[layer], layer < 2 ? 1 + prefix : 1, layer == 2 ? prefix : 0);
  }
  std::vector<float> logits(static_cast<std::size_t>(config.shape.vocabulary));
  const int row = 0;
  decoder->logits(std::span{&row, 1}, logits);
  CHECK(logits == expected);
  for (std::size_t layer = 0; layer < 3; ++layer)
    for (std::size_t block = 0; block < kv.layers[layer].size(); ++block)
      CHECK(std::equal(whole.block(layer, block), whole.block(layer, block) + config.shape.delta.numbers(),
                       kv.block(layer, block)));
}

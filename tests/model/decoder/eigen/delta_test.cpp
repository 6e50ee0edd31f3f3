// SPDX-License-Identifier: Apache-2.0
// The gated delta rule: logits agree with a decoder in double precision that keeps whole lists of tokens, written from
// Hugging Face's `Qwen3NextGatedDeltaNet` and `Qwen3NextAttention`. A folder gives the logits of the same weights in
// memory.
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/model/checkpoint/tiny.hpp"

#include "model/decoder/doubled.hpp"
#include "support/checkpoint_writer.hpp"
#include "support/program.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
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

/// A token's projections, each in the order of its heads.
struct Projected {
  Vector query, key, value, gate, update, decay;
};

/// Joint projections are a row of numbers for each key head: the head's Q and K, then V and the gates of its value
/// heads; or these heads' updates, then their decays.
Projected taken_apart(const DeltaRule& delta, const Vector& mixed, const Vector& rates) {
  Projected apart;
  const int heads = delta.value_heads / delta.key_heads;
  auto next = mixed.begin();
  const auto take = [](auto& from, Vector& to, int count) {
    to.insert(to.end(), from, from + count);
    from += count;
  };
  for (int head = 0; head < delta.key_heads; ++head) {
    take(next, apart.query, delta.key_dim);
    take(next, apart.key, delta.key_dim);
    take(next, apart.value, heads * delta.value_dim);
    take(next, apart.gate, heads * delta.value_dim);
  }
  CHECK(next == mixed.end());
  next = rates.begin();
  for (int head = 0; head < delta.key_heads; ++head) {
    take(next, apart.update, heads);
    take(next, apart.decay, heads);
  }
  CHECK(next == rates.end());
  return apart;
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
    Vector gates, updates, decays;
    if (config.joint_states) {
      Projected apart = taken_apart(delta, product(w.mixed, token), product(w.update, token));
      inputs.push_back(apart.query);
      for (const Vector& more : {apart.key, apart.value})
        inputs.back().insert(inputs.back().end(), more.begin(), more.end());
      gates = apart.gate;
      updates = apart.update;
      decays = apart.decay;
    } else {
      inputs.push_back(product(w.mixed, token));
      gates = product(w.state_gate, token);
      updates = product(w.update, token);
      decays = product(w.decay, token);
    }
    Vector mixed;
    for (int c = 0; c < delta.channels(); ++c) {
      double sum = 0;
      for (int back = 0; back < delta.kernel && back < static_cast<int>(inputs.size()); ++back)
        sum += number(w.convolution, c, delta.kernel - 1 - back) *
               inputs[inputs.size() - 1 - static_cast<std::size_t>(back)][static_cast<std::size_t>(c)];
      mixed.push_back(sum * sigmoid(sum));
    }
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

/// `Qwen3NextTopKRouter`: the largest of all experts' softmax, which add up to 1 if `normalised`.
Vector weighed(const Vector& logits, int taken, bool normalised, std::vector<int>& chosen) {
  double all = 0, sum = 0;
  for (const double logit : logits) all += std::exp(logit);
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  order.resize(static_cast<std::size_t>(taken));
  Vector weights(logits.size(), 0.0);
  for (const std::size_t expert : order) {
    ++chosen[expert];
    sum += weights[expert] = std::exp(logits[expert]) / all;
  }
  for (double& weight : weights) weight /= normalised ? sum : 1;
  return weights;
}

std::vector<Vector> delta_logits(const MadeModel& model, const std::vector<std::int32_t>& tokens,
                                 const Weigh& weigh = {}) {
  const DecoderConfig& config = model.weights.config;
  return doubled_logits(
      model, tokens,
      [&](int layer, const LayerWeights& w, const std::vector<Vector>& x) {
        return config.shape.delta.layers.contains(layer) ? recurrent(config, w, x) : attending(config, w, x);
      },
      weigh);
}

/// The tensors of a model with a matrix for each projection, with Qwen3-Next's joint ones instead.
std::vector<WrittenTensor> joint_tensors(const ModelWeights& weights) {
  const DeltaRule& delta = weights.config.shape.delta;
  const std::int64_t keys = delta.key_dim, heads = delta.value_heads / delta.key_heads;
  const std::int64_t values = heads * delta.value_dim, all_keys = keys * delta.key_heads;
  std::map<std::string, WrittenTensor> all;
  for (WrittenTensor& tensor : tensors_of(weights)) all[tensor.name] = std::move(tensor);
  for (int layer = 0; layer < weights.config.shape.layers; ++layer) {
    if (!delta.layers.contains(layer)) continue;
    const std::string start = "model.layers." + std::to_string(layer) + ".linear_attn.in_proj_";
    const auto taken = [&](const char* name) {
      WrittenTensor tensor = all.at(start + name + ".weight");
      all.erase(tensor.name);
      return tensor;
    };
    const WrittenTensor qkv = taken("qkv"), z = taken("z"), b = taken("b"), a = taken("a");
    const auto add = [](WrittenTensor& to, const WrittenTensor& from, std::int64_t first, std::int64_t rows) {
      const std::size_t row = from.data.size() / static_cast<std::size_t>(from.shape[0]);
      to.data += from.data.substr(row * static_cast<std::size_t>(first), row * static_cast<std::size_t>(rows));
    };
    WrittenTensor qkvz{start + "qkvz.weight", qkv.dtype, {qkv.shape[0] + z.shape[0], qkv.shape[1]}, ""};
    WrittenTensor ba{start + "ba.weight", b.dtype, {2 * b.shape[0], b.shape[1]}, ""};
    for (int head = 0; head < delta.key_heads; ++head) {
      add(qkvz, qkv, head * keys, keys);
      add(qkvz, qkv, all_keys + head * keys, keys);
      add(qkvz, qkv, 2 * all_keys + head * values, values);
      add(qkvz, z, head * values, values);
      add(ba, b, head * heads, heads);
      add(ba, a, head * heads, heads);
    }
    all[qkvz.name] = qkvz;
    all[ba.name] = ba;
  }
  std::vector<WrittenTensor> tensors;
  for (auto& [name, tensor] : all) tensors.push_back(std::move(tensor));
  return tensors;
}

} // namespace

TEST_CASE("a folder of Qwen3-Next or Qwen3.5 gives the bits of tiny-delta, whose weights it has") {
  const ModelWeights tiny = tiny_delta();
  const MadeModel expected = made_of(tiny);
  const std::vector<std::int32_t> tokens = some_tokens(40, tiny.config.shape.vocabulary);
  const auto logits = logits_of(expected, tokens);
  for (const bool joint : {true, false}) {
    DecoderConfig config = tiny.config;
    config.shape.name = joint ? "qwen3_next" : "qwen3_5_text";
    const sluice_test::TemporaryFolder folder;
    write_file(folder.path / "config.json", hf_config_of(config).dump());
    write_file(folder.path / "model.safetensors", safetensors_text(joint ? joint_tensors(tiny) : tensors_of(tiny)));
    const Expected<ModelWeights> read = read_checkpoint(folder.path.string());
    if (!read) FAIL(read.error().line());
    CHECK(read->config.joint_states == joint);
    CHECK(logits_of(made_of(*read), tokens) == logits);
  }
}

TEST_CASE(
    "the gated delta rule: logits agree with double precision to 1e-4 of the largest, in one piece and in chunks") {
  const DeltaRule kinds[] = {
      {.key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 20, .kernel = 4}, // not whole registers
      {.key_heads = 3, .value_heads = 3, .key_dim = 32, .value_dim = 16, .kernel = 2},
      {.key_heads = 1, .value_heads = 5, .key_dim = 3, .value_dim = 37, .kernel = 8}, // larger than K and V
  };
  for (const char* family : {"qwen3_next", "qwen3_5"})
    for (const DeltaRule& delta : kinds) {
      DecoderConfig config = family_config(family);
      const LayerSet layers = config.shape.delta.layers;
      config.shape.delta = delta;
      config.shape.delta.layers = layers;
      CAPTURE(family);
      CAPTURE(delta.key_dim);
      const MadeModel model{config, ElementType::f32};
      const std::vector<std::int32_t> tokens = some_tokens(83, config.shape.vocabulary);
      check_agrees(model, tokens, delta_logits(model, tokens));
    }
}

TEST_CASE("the experts of Qwen3-Next: logits agree with double precision, and a folder gives the same bits") {
  std::vector<Vector> last;
  for (const bool normalised : {true, false}) {
    CAPTURE(normalised);
    DecoderConfig config = family_config("qwen3_next_experts");
    config.routing.normalised = normalised;
    config.shape.name = "qwen3_next";
    REQUIRE(check(config, "the test").ok());
    const MadeModel model{config, ElementType::f32};
    const std::vector<std::int32_t> tokens = some_tokens(83, config.shape.vocabulary);
    std::vector<int> chosen(static_cast<std::size_t>(config.shape.experts), 0);
    const auto weigh = [&](const Vector& logits, const LayerWeights&) {
      return weighed(logits, config.shape.experts_per_token, normalised, chosen);
    };
    last.push_back(delta_logits(model, tokens, weigh).back());
    check_agrees(model, tokens, delta_logits(model, tokens, weigh));
    CHECK(*std::min_element(chosen.begin(), chosen.end()) > 0);

    const sluice_test::TemporaryFolder folder;
    write_checkpoint(folder.path, model.weights);
    const Expected<ModelWeights> read = read_checkpoint(folder.path.string());
    if (!read) FAIL(read.error().line());
    CHECK(read->config.shape.dense == config.shape.dense);
    CHECK(logits_of(made_of(*read), tokens) == logits_of(model, tokens));
  }
  CHECK(apart(last[0], last[1]) > 0.01);
}

namespace {

/// The same tensors with all experts of a layer in two, as Qwen3.5's checkpoints have them.
std::vector<WrittenTensor> packed_tensors(const ModelWeights& weights) {
  const ModelShape& shape = weights.config.shape;
  std::map<std::string, WrittenTensor> all;
  for (WrittenTensor& tensor : tensors_of(weights)) all[tensor.name] = std::move(tensor);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string start = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    WrittenTensor both{start + "gate_up_proj", "F32", {shape.experts, 2 * shape.moe_intermediate, shape.hidden}, ""};
    WrittenTensor down{start + "down_proj", "F32", {shape.experts, shape.hidden, shape.moe_intermediate}, ""};
    for (int expert = 0; expert < shape.experts; ++expert)
      for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
        const std::string own = start + std::to_string(expert) + "." + name + ".weight";
        (name[0] == 'd' ? down : both).data += all.at(own).data;
        all.erase(own);
      }
    all[both.name] = std::move(both);
    all[down.name] = std::move(down);
  }
  std::vector<WrittenTensor> tensors;
  for (auto& [name, tensor] : all) tensors.push_back(std::move(tensor));
  return tensors;
}

} // namespace

TEST_CASE("Qwen3.5 with experts: logits agree with double precision, and both forms of a folder give the same bits") {
  DecoderConfig config = family_config("qwen3_5_experts");
  config.shape.name = "qwen3_5_moe_text";
  REQUIRE(check(config, "the test").ok());
  const MadeModel model{config, ElementType::f32};
  const std::vector<std::int32_t> tokens = some_tokens(83, config.shape.vocabulary);
  std::vector<int> chosen(static_cast<std::size_t>(config.shape.experts), 0);
  const auto weigh = [&](const Vector& logits, const LayerWeights&) {
    return weighed(logits, config.shape.experts_per_token, true, chosen);
  };
  check_agrees(model, tokens, delta_logits(model, tokens, weigh));
  CHECK(*std::min_element(chosen.begin(), chosen.end()) > 0);
  const auto logits = logits_of(model, tokens);
  for (const bool packed : {true, false}) {
    CAPTURE(packed);
    const sluice_test::TemporaryFolder folder;
    write_file(folder.path / "config.json", hf_config_of(config).dump());
    std::vector<WrittenTensor> tensors = packed ? packed_tensors(model.weights) : tensors_of(model.weights);
    write_file(folder.path / "model.safetensors", safetensors_text(tensors));
    const Expected<ModelWeights> read = read_checkpoint(folder.path.string());
    if (!read) FAIL(read.error().line());
    CHECK(logits_of(made_of(*read), tokens) == logits);
    if (!packed) continue;
    for (WrittenTensor& tensor : tensors)
      if (tensor.name == "model.layers.2.mlp.experts.down_proj") std::swap(tensor.shape[1], tensor.shape[2]);
    write_file(folder.path / "model.safetensors", safetensors_text(tensors));
    CHECK(read_checkpoint(folder.path.string())
              .error()
              .line()
              .find("tensor 'model.layers.2.mlp.experts.down_proj' has the shape [7, 40, 64]; expected [7, 64, 40]") !=
          std::string::npos);
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

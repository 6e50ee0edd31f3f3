// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/units.hpp"
#include "sluice/model/checkpoint/layer_layout.hpp"
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/decoder.hpp"

#include "support/small_decoders.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments(const std::byte* at, std::int64_t elements, ElementType type) {
  double sum = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < elements; ++i, at += bytes_of(type)) {
    const double value = static_cast<double>(load_element(at, type));
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(elements);
  return {sum / count, std::sqrt(squares / count - sum / count * sum / count)};
}

/// FNV-1a, so that one number identifies a model.
std::uint64_t digest(const std::byte* at, std::int64_t bytes, std::uint64_t hash = 0xcbf29ce484222325u) {
  for (std::int64_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<std::uint64_t>(at[i])) * 0x100000001b3u;
  return hash;
}

std::uint64_t digest(const ModelWeights& weights) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t layer = 0; layer < weights.layers.size(); ++layer)
    for (std::size_t i = 0; i < weights.layers[layer].size(); ++i)
      hash = digest(weights.layers[layer][i], weights.layout_at(static_cast<int>(layer)).places[i].bytes(), hash);
  for (const Matrix* outer :
       {&weights.embedding, &weights.positions, &weights.final_norm, &weights.final_norm_bias, &weights.head})
    hash = digest(outer->row(0), outer->rows * outer->row_bytes(), hash);
  return hash;
}

} // namespace

TEST_CASE("a layer's image has the parameters of its shape, vectors first, each tensor once and aligned") {
  std::vector<std::pair<DecoderConfig, LayerKind>> cases;
  for (const DecoderConfig& config : testing::small_decoders())
    for (std::size_t number = 0; number < LayerKind::count; ++number)
      for (int layer = config.shape.layers - 1; layer >= 0; --layer)
        if (config.kind(layer) == LayerKind::of(number)) {
          cases.emplace_back(config, config.kind(layer));
          break;
        }
  for (const auto& one : cases) { // clang 14 captures no structured bindings
    const DecoderConfig& config = one.first;
    const LayerKind kind = one.second;
    CAPTURE(config.shape.name);
    CAPTURE(kind.number());
    const LayerLayout layout = layout_of(config, ElementType::bf16, kind);
    std::int64_t matrices = 0;
    std::int64_t end = 0;
    bool matrix_before = false;
    std::set<std::pair<LayerTensor, int>> seen;
    for (const TensorPlace& place : layout.places) {
      CHECK(place.offset % weight_alignment == 0);
      CHECK(place.offset >= end);
      CHECK(place.offset - end < weight_alignment);
      end = place.offset + place.bytes();
      CHECK(seen.emplace(place.tensor, place.expert).second);
      CHECK(place.rows > 0);
      if (place.rows > 1) matrices += place.rows * place.columns;
      CHECK_FALSE((place.rows == 1 && matrix_before));
      matrix_before = matrix_before || place.rows > 1;
    }
    ModelShape shape = config.shape;
    if (kind.dense) shape.experts = shape.shared_intermediate = 0;
    const DeltaRule& delta = shape.delta;
    const std::int64_t queries = std::int64_t{shape.heads} * shape.head_dim;
    const std::int64_t read = std::int64_t{delta.value_heads} * delta.value_dim;
    std::int64_t expected = shape.layer_parameters() + (config.gated_heads ? shape.hidden * queries : 0);
    if (kind.state)
      expected = shape.layer_parameters() - shape.attention_parameters() +
                 shape.hidden * (delta.channels() + 2 * read + 2 * delta.value_heads) +
                 std::int64_t{delta.channels()} * delta.kernel;
    CHECK(matrices == expected);
    CHECK(layout.bytes.count() >= end);
    CHECK(layout.bytes.count() - end < weight_alignment);
  }
}

TEST_CASE("types may differ between tensors, and LayerWeights finds each tensor") {
  for (const DecoderConfig& config : testing::small_decoders()) {
    const LayerLayout layout = layout_of(config, [](LayerTensor tensor, int) {
      return tensor == LayerTensor::query ? ElementType::f16
             : tensor >= LayerTensor::key ? ElementType::bf16
                                          : ElementType::f32;
    });
    const std::vector<std::byte> image(static_cast<std::size_t>(layout.bytes.count()));
    const LayerWeights layer(layout, image.data(), nullptr, layout.bytes.count());
    CHECK(layer.attention_norm.type == ElementType::f32);
    CHECK(layer.query.type == ElementType::f16);
    CHECK(layer.query.rows == std::int64_t{config.shape.heads} * config.shape.head_dim * (config.gated_heads ? 2 : 1));
    CHECK(layer.key.type == ElementType::bf16);
    CHECK(layer.output.columns == std::int64_t{config.shape.heads} * config.shape.value_dim());
    const int experts = config.shape.experts + (config.shape.shared_intermediate > 0 ? 1 : 0);
    CHECK(layer.mlps.size() == static_cast<std::size_t>(std::max(1, experts)));
    for (const MlpWeights& mlp : layer.mlps) {
      CHECK(mlp.gate.empty() == (config.mlp == MlpKind::relu));
      CHECK(mlp.up.rows == mlp.down.columns);
      CHECK(mlp.down.rows == config.shape.hidden);
    }
    CHECK(layer.router.empty() == (config.shape.experts == 0));
    CHECK(layer.query_bias.empty() == !config.qkv_bias);
    CHECK(layer.query_norm.empty() == (!config.query_key_norm && config.shape.latent.query_rank == 0));
    CHECK(layer.value.empty() == config.shape.has_latents());
    CHECK(layer.latent_up.empty() == !config.shape.has_latents());
    CHECK(layer.query_down.rows == config.shape.latent.query_rank);
  }
}

TEST_CASE("random weights depend on their seed, fill the config's tensors, and vary") {
  for (const DecoderConfig& config : testing::small_decoders())
    for (const ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16}) {
      CAPTURE(config.shape.name);
      const ModelWeights weights = random_weights(config, 7, type);
      CHECK(digest(weights) == digest(random_weights(config, 7, type)));
      CHECK(digest(weights) != digest(random_weights(config, 8, type)));
      CHECK(weights.config.shape.weight_element_bytes == bytes_of(type));
      CHECK(weights.layers.size() == static_cast<std::size_t>(config.shape.layers));
      for (int at = 0; at < config.shape.layers; ++at)
        CHECK(weights.layers[static_cast<std::size_t>(at)].size() == weights.layout_at(at).places.size());
      CHECK(weights.layers[0] != weights.layers[1]);
      CHECK(weights.embedding.rows == config.shape.vocabulary);
      CHECK(weights.head.rows == config.shape.vocabulary);
      CHECK((weights.head.head == weights.embedding.head) == config.shape.tied_embeddings);
      CHECK(weights.positions.rows == (config.position == PositionKind::learned
                                           ? std::int64_t{config.max_positions} + config.position_offset
                                           : std::int64_t{0}));
      CHECK(weights.final_norm_bias.empty() == (config.norm != NormKind::layer));
      for (int at = 0; at < config.shape.layers; ++at)
        for (std::size_t i = 0; i < weights.layout_at(at).places.size(); ++i) {
          const TensorPlace& place = weights.layout_at(at).places[i];
          const Moments found =
              moments(weights.layers[static_cast<std::size_t>(at)][i], place.rows * place.columns, type);
          const detail::Spread spread = detail::spread_of(place, config.norm);
          const auto deviation = static_cast<double>(spread.deviation);
          const double doubt = 6 * deviation / std::sqrt(static_cast<double>(place.rows * place.columns)) + 0.01;
          CHECK(std::abs(found.mean - static_cast<double>(spread.mean)) < doubt);
          CHECK(std::abs(found.deviation - deviation) < doubt);
        }
    }
}

TEST_CASE("a tensor has the same numbers whatever else a model has") {
  const DecoderConfig plain = testing::small_llama();
  DecoderConfig biased = plain;
  biased.qkv_bias = true;
  const ModelWeights one = random_weights(plain, 3);
  const ModelWeights other = random_weights(biased, 3);
  const LayerWeights first(one.layout, one.layers[1][0], nullptr, one.layout.bytes.count());
  const LayerWeights second(other.layout, other.layers[1][0], nullptr, other.layout.bytes.count());
  const std::int64_t bytes = first.mlps[0].down.rows * first.mlps[0].down.row_bytes();
  CHECK(digest(first.mlps[0].down.row(0), bytes) == digest(second.mlps[0].down.row(0), bytes));
}

TEST_CASE("tiny has its documented sizes, and the same numbers on every platform") {
  const ModelWeights tiny = tiny_llama();
  const ModelShape& shape = tiny.config.shape;
  CHECK(shape.layers == 8);
  CHECK(shape.kv_heads == 4);
  CHECK(shape.head_dim == 32);
  CHECK(shape.layer_block_bytes(Tokens{16}) == Bytes{16 << 10});
  CHECK(check(shape, "tiny").ok());
  CHECK(tiny.layout.bytes >= shape.layer_weight_bytes());
  CHECK(tiny.outer_bytes() == Bytes{(2 * 260 + 1) * 256 * 4});
  CHECK(digest(tiny) == 8814098868888357573U);
  const ModelWeights latent = tiny_latent();
  const ModelShape& other = latent.config.shape;
  CHECK(check(other, "tiny-mla").ok());
  CHECK(other.kv_width() == 96);
  CHECK(other.layer_block_bytes(Tokens{16}) == Bytes{6 << 10});
  CHECK(latent.layout.bytes >= other.layer_weight_bytes());
  const ModelWeights delta = tiny_delta();
  const ModelShape& states = delta.config.shape;
  CHECK(check(states, "tiny-delta").ok());
  CHECK(states.delta.layers.count() == 6);
  CHECK(states.delta.numbers() * 4 == 14976);
  CHECK(kv_block_floats(states, Tokens{16}) * 4 == 16 << 10);
  const LayerLayout& of_states = delta.layout_of_kind({.state = true});
  CHECK(delta.layout.bytes == of_states.bytes);
  CHECK(delta.layers[3].size() == delta.layout.places.size());
  CHECK(delta.layers[4].size() == of_states.places.size());
  const DecoderConfig windows = tiny_windows_config();
  CHECK(check(windows, "tiny-window").ok());
  CHECK(windows.window(0) == 24);
  CHECK(windows.window(7) == 0); // all tokens
  const ModelWeights routed = tiny_latent_experts();
  const LayerLayout& dense = routed.layout_of_kind({.dense = true});
  CHECK(check(routed.config, "tiny-mla-experts").ok());
  CHECK(routed.layout.bytes == dense.bytes);
  CHECK(routed.layers[0].size() == dense.places.size());
  CHECK(routed.layers[1].size() == routed.layout.places.size());
  CHECK(routed.layout.bytes >= routed.config.shape.layer_weight_bytes());
}

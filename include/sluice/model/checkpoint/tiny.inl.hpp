// SPDX-License-Identifier: Apache-2.0
// tiny_llama: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/model/checkpoint/element.hpp"
#include "sluice/model/checkpoint/layer_layout.hpp"
#include "sluice/model/checkpoint/tiny.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace sluice::detail {

/// Memory in which every tensor may begin. Its pages are untouched, so threads that fill it create them in parallel.
inline std::shared_ptr<std::byte> aligned_bytes(std::int64_t size) {
  constexpr std::align_val_t alignment{static_cast<std::size_t>(weight_alignment)};
  auto* bytes = static_cast<std::byte*>(::operator new(static_cast<std::size_t>(size), alignment));
  return {bytes, [](std::byte* from) { ::operator delete(from, alignment); }};
}

/// A random number of variance 1 between -3 and 3: the sum of three uniform ones, computed with whole numbers, so that
/// its bits are the same whatever a platform's logarithm returns (which is why Box and Muller's transform was
/// rejected).
inline float nearly_normal(Random& random) {
  const std::uint64_t draw = random();
  constexpr std::uint64_t field = (std::uint64_t{1} << 21) - 1;
  const std::uint64_t sum = (draw & field) + ((draw >> 21) & field) + ((draw >> 42) & field);
  return static_cast<float>(static_cast<std::int64_t>(2 * sum) - static_cast<std::int64_t>(3 * field)) * 0x1p-21F;
}

/// Fills a tensor with numbers that depend only on `seed` and `stream`, so that a tensor keeps its values when others
/// are added or removed.
inline void fill_random(std::byte* at, std::int64_t elements, ElementType type, Spread spread, std::uint64_t seed,
                        std::uint64_t stream) {
  Random random(seed * 0x9e3779b97f4a7c15u + stream);
  for (std::int64_t i = 0; i < elements; ++i, at += bytes_of(type))
    store_element(at, type, spread.mean + spread.deviation * nearly_normal(random));
}

SLUICE_MODEL_INLINE Spread spread_of(const TensorPlace& place, NormKind norm) {
  switch (place.tensor) {
  case LayerTensor::attention_norm:
  case LayerTensor::query_norm:
  case LayerTensor::key_norm:
  case LayerTensor::mlp_norm:
    return {norm == NormKind::rms_offset ? 0.0F : 1.0F, 0.1F};
  case LayerTensor::state_norm:
    return {1, 0.1F};
  case LayerTensor::decay_bias: // half of a state is forgotten after 2 to 20 tokens
    return {-2, 1};
  case LayerTensor::decay_log:
    return {0, 0.5F};
  case LayerTensor::attention_norm_bias:
  case LayerTensor::query_bias:
  case LayerTensor::key_bias:
  case LayerTensor::value_bias:
  case LayerTensor::output_bias:
  case LayerTensor::mlp_norm_bias:
  case LayerTensor::up_bias:
  case LayerTensor::down_bias:
  case LayerTensor::router_bias:
    return {0, 0.1F};
  case LayerTensor::router:
  case LayerTensor::query:
    return {0, 2 / std::sqrt(static_cast<float>(place.columns))};
  case LayerTensor::key:
  case LayerTensor::value:
  case LayerTensor::output:
  case LayerTensor::gate:
  case LayerTensor::up:
  case LayerTensor::down:
  case LayerTensor::query_down:
  case LayerTensor::latent_up:
  case LayerTensor::convolution:
  case LayerTensor::mixed:
  case LayerTensor::state_gate:
  case LayerTensor::update:
  case LayerTensor::decay:
  case LayerTensor::shared_gate:
    break;
  }
  return {0, 1 / std::sqrt(static_cast<float>(place.columns))};
}

/// A tensor to be drawn, and the zeros up to the next tensor.
struct DrawnTensor {
  std::byte* at = nullptr;
  std::int64_t elements = 0;
  std::int64_t room = 0; ///< bytes
  Spread spread;
  std::uint64_t stream = 0;

  void draw(ElementType type, std::uint64_t seed) const {
    fill_random(at, elements, type, spread, seed, stream);
    const std::int64_t bytes = elements * bytes_of(type);
    std::memset(at + bytes, 0, static_cast<std::size_t>(room - bytes));
  }
};

} // namespace sluice::detail

namespace sluice {

SLUICE_MODEL_INLINE void one_by_one(int count, const std::function<void(int)>& work) {
  for (int i = 0; i < count; ++i) work(i);
}

SLUICE_MODEL_INLINE ModelWeights random_weights(DecoderConfig config, std::uint64_t seed, ElementType type,
                                                const ForEach& for_each) {
  config.shape.weight_element_bytes = bytes_of(type);
  config.shape.kv_element_bytes = 4;
  const ModelShape& shape = config.shape;
  ModelWeights weights;
  weights.lay_out_layers(config, [&](LayerKind kind) { return layout_of(config, type, kind); });

  const std::int64_t layer_bytes = weights.layout.bytes.count();
  const float head_deviation = 3 / std::sqrt(static_cast<float>(shape.hidden));
  struct Outer {
    Matrix* matrix;
    std::int64_t rows;
    detail::Spread spread;
  };
  std::vector<Outer> outer{
      {&weights.embedding, shape.vocabulary, {0, shape.tied_embeddings ? head_deviation : 1.0F}},
      {&weights.final_norm, 1, {config.norm == NormKind::rms_offset ? 0.0F : 1.0F, 0.1F}},
  };
  if (config.position == PositionKind::learned)
    outer.push_back({&weights.positions, std::int64_t{config.max_positions} + config.position_offset, {0, 0.5F}});
  if (config.norm == NormKind::layer) outer.push_back({&weights.final_norm_bias, 1, {0, 0.1F}});
  if (!shape.tied_embeddings) outer.push_back({&weights.head, shape.vocabulary, {0, head_deviation}});

  const auto aligned = [](std::int64_t bytes) {
    return (bytes + weight_alignment - 1) / weight_alignment * weight_alignment;
  };
  const std::int64_t row_bytes = std::int64_t{shape.hidden} * bytes_of(type);
  std::int64_t total = layer_bytes * shape.layers;
  for (const Outer& part : outer) total += aligned(part.rows * row_bytes);
  const std::shared_ptr<std::byte> memory = detail::aligned_bytes(total);

  std::vector<detail::DrawnTensor> drawn;
  std::byte* at = memory.get();
  for (int layer = 0; layer < shape.layers; ++layer, at += layer_bytes) {
    std::vector<const std::byte*> tensors;
    for (const TensorPlace& place : weights.layout_of_kind(config.kind(layer)).places) {
      const std::uint64_t stream = (static_cast<std::uint64_t>(layer) + 1) << 32 |
                                   static_cast<std::uint64_t>(place.expert + 1) << 8 |
                                   static_cast<std::uint64_t>(place.tensor);
      drawn.push_back({at + place.offset, place.rows * place.columns, aligned(place.bytes()),
                       detail::spread_of(place, config.norm), stream});
      tensors.push_back(at + place.offset);
    }
    weights.layers.push_back(std::move(tensors));
  }
  std::uint64_t stream = 0;
  for (const Outer& part : outer) {
    const std::int64_t room = aligned(part.rows * row_bytes);
    drawn.push_back({at, part.rows * shape.hidden, room, part.spread, stream++});
    *part.matrix = Matrix::whole(at, part.rows, shape.hidden, type);
    at += room;
  }
  // The largest first, so that no thread works on the vocabulary alone at the end.
  std::sort(drawn.begin(), drawn.end(), [](const auto& a, const auto& b) { return a.room > b.room; });
  for_each(static_cast<int>(drawn.size()), [&](int i) { drawn[static_cast<std::size_t>(i)].draw(type, seed); });
  if (shape.tied_embeddings) weights.head = weights.embedding;
  weights.config = std::move(config);
  weights.owner = memory;
  return weights;
}

SLUICE_MODEL_INLINE DecoderConfig tiny_llama_config() {
  DecoderConfig config;
  config.shape.name = "tiny";
  config.shape.layers = 8;
  config.shape.hidden = 256;
  config.shape.heads = 8;
  config.shape.kv_heads = 4;
  config.shape.head_dim = 32;
  config.shape.mlp = 704;
  config.shape.vocabulary = 260;
  config.shape.weight_element_bytes = 4;
  config.shape.kv_element_bytes = 4;
  config.max_positions = 1 << 16;
  config.begin_token = 256;
  config.end_tokens = {257};
  return config;
}

SLUICE_MODEL_INLINE DecoderConfig tiny_windows_config() {
  DecoderConfig config = tiny_llama_config();
  config.shape.name = "tiny-window";
  for (int layer = 0; layer < config.shape.layers; ++layer) config.windows.push_back(layer % 4 == 3 ? 0 : 24);
  return config;
}

SLUICE_MODEL_INLINE DecoderConfig tiny_latent_config() {
  DecoderConfig config = tiny_llama_config();
  config.shape.name = "tiny-mla";
  config.shape.kv_heads = 1;
  config.shape.head_dim = 48;
  config.shape.latent = {.rank = 80, .rotated = 16, .value = 32, .query_rank = 96};
  config.norm_epsilon = 1e-6F;
  config.neighbours_rotate = true;
  return config;
}

SLUICE_MODEL_INLINE DecoderConfig tiny_latent_experts_config() {
  DecoderConfig config = tiny_latent_config();
  config.shape.name = "tiny-mla-experts";
  config.shape.dense.insert(0);
  config.shape.experts = 12;
  config.shape.experts_per_token = 3;
  config.shape.moe_intermediate = 64;
  config.shape.shared_intermediate = 96;
  config.mlp = MlpKind::experts;
  config.routing = {.score = RouterScore::sigmoid,
                    .corrected = true,
                    .scale = 2.5,
                    .groups = 4,
                    .groups_per_token = 2,
                    .group_scores = 2};
  return config;
}

SLUICE_MODEL_INLINE DecoderConfig tiny_delta_config() {
  DecoderConfig config = tiny_llama_config();
  config.shape.name = "tiny-delta";
  config.shape.kv_heads = 2;
  config.shape.head_dim = 64;
  config.shape.rotated = 16;
  config.shape.delta = {.key_heads = 2, .value_heads = 4, .key_dim = 24, .value_dim = 32, .kernel = 4};
  for (int layer = 0; layer < config.shape.layers; ++layer)
    if (layer % 4 != 3) config.shape.delta.layers.insert(layer);
  config.norm = NormKind::rms_offset;
  config.norm_epsilon = 1e-6F;
  config.query_key_norm = true;
  config.gated_heads = true;
  return config;
}

SLUICE_MODEL_INLINE ModelWeights tiny_windows(std::uint64_t seed) {
  return random_weights(tiny_windows_config(), seed);
}

SLUICE_MODEL_INLINE ModelWeights tiny_delta(std::uint64_t seed) { return random_weights(tiny_delta_config(), seed); }

SLUICE_MODEL_INLINE ModelWeights tiny_latent(std::uint64_t seed) { return random_weights(tiny_latent_config(), seed); }

SLUICE_MODEL_INLINE ModelWeights tiny_latent_experts(std::uint64_t seed) {
  return random_weights(tiny_latent_experts_config(), seed);
}

SLUICE_MODEL_INLINE ModelWeights tiny_llama(std::uint64_t seed) { return random_weights(tiny_llama_config(), seed); }

} // namespace sluice

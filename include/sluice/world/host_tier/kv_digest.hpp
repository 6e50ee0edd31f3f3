// SPDX-License-Identifier: Apache-2.0
// kv_digest: a number that tells apart the KV of two models, and of two ways to compute it.
#pragma once

#include "sluice/core/fnv.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/model/decoder/weights_digest.hpp"
#include "sluice/records/record.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// The digest of everything, besides tokens, that the bytes of a block depend on: the weights (`weights_digest`), the
/// decoder's shape, its positions and norms, the elements' size, the block's size, and `build`, the program that
/// computes them. The tokenizer counts by its vocabulary: KV depends on token numbers, not on their text.
[[nodiscard]] inline std::uint64_t kv_digest(const ModelWeights& weights, std::int64_t element_bytes,
                                             Tokens block_tokens, std::string_view build) {
  const DecoderConfig& config = weights.config;
  const ModelShape& shape = config.shape;
  const RopeScaling& scaling = config.rope_scaling;
  Fnv digest;
  const auto add_text = [&digest](std::string_view text) {
    digest.add(static_cast<std::int64_t>(text.size()));
    const auto bytes = std::as_bytes(std::span(text));
    digest.add(bytes.data(), static_cast<std::int64_t>(bytes.size()));
  };
  const auto add_real = [&digest](double value) { digest.add(std::bit_cast<std::int64_t>(value)); };
  digest.add(static_cast<std::int64_t>(record_version));
  add_text(weights_digest(weights));
  add_text(build);
  for (const std::int64_t number :
       {std::int64_t{shape.layers}, std::int64_t{shape.hidden}, std::int64_t{shape.heads}, std::int64_t{shape.kv_heads},
        std::int64_t{shape.head_dim}, std::int64_t{shape.vocabulary}, element_bytes, block_tokens.count(),
        static_cast<std::int64_t>(config.norm), static_cast<std::int64_t>(config.position),
        static_cast<std::int64_t>(config.mlp), std::int64_t{config.position_offset}, std::int64_t{config.qkv_bias},
        std::int64_t{config.query_key_norm}})
    digest.add(number);
  for (const double number :
       {static_cast<double>(config.norm_epsilon), config.rope_theta, static_cast<double>(scaling.factor),
        static_cast<double>(scaling.low_frequency_factor), static_cast<double>(scaling.high_frequency_factor),
        static_cast<double>(scaling.original_positions)})
    add_real(number);
  return digest.value();
}

} // namespace sluice

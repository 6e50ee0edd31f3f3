// SPDX-License-Identifier: Apache-2.0
// make_decoder: the BasicDecoder that a configuration asks for.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/decoder/decoder.hpp"
#include "sluice/decoder/eigen/basic_decoder.hpp"
#include "sluice/decoder/eigen/mlps.hpp"
#include "sluice/decoder/eigen/norms.hpp"
#include "sluice/decoder/eigen/paged_attention.hpp"
#include "sluice/decoder/eigen/positions.hpp"

#include <memory>

namespace sluice {

using LlamaDecoder = BasicDecoder<RmsNorm, Rotary, PagedAttention, GatedSilu>; ///< Llama, Qwen2, Qwen3
using MixtralDecoder = BasicDecoder<RmsNorm, Rotary, PagedAttention, Experts>;
using OptDecoder = BasicDecoder<LayerNorm, Learned, PagedAttention, Relu>;

/// A decoder of the configuration's parts, for K and V in blocks of `block_tokens` f32 tokens, on `threads` threads,
/// the caller's included. The decoder reads the embedding, the learned positions, the last norm and the head where
/// `weights` says; those bytes must live as long as the decoder. The layers come with each call.
///
/// Null for parts that no family puts together, such as rotation with LayerNorm: with twelve compositions in place of
/// three, a file that includes this header took 4 s longer to compile. A program that wants another composition names
/// it: BasicDecoder<LayerNorm, Rotary, …>.
[[nodiscard]] inline std::unique_ptr<Decoder> make_decoder(const ModelWeights& weights, Tokens block_tokens,
                                                           int threads) {
  SLUICE_ASSERT(!weights.embedding.empty() && !weights.head.empty(), "an embedding and a head");
  const DecoderConfig& config = weights.config;
  if (config.norm == NormKind::rms && config.position == PositionKind::rotary) {
    if (config.mlp == MlpKind::gated_silu) return std::make_unique<LlamaDecoder>(weights, block_tokens, threads);
    if (config.mlp == MlpKind::experts) return std::make_unique<MixtralDecoder>(weights, block_tokens, threads);
  }
  if (config.norm == NormKind::layer && config.position == PositionKind::learned && config.mlp == MlpKind::relu)
    return std::make_unique<OptDecoder>(weights, block_tokens, threads);
  return nullptr;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// make_decoder: the BasicDecoder for a configuration.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/eigen/basic_decoder.hpp"
#include "sluice/model/decoder/eigen/delta_heads.hpp"
#include "sluice/model/decoder/eigen/latent_heads.hpp"
#include "sluice/model/decoder/eigen/paged_attention.hpp"
#include "sluice/model/decoder/eigen/parts.hpp"

#include <memory>

namespace sluice {

using LlamaDecoder = BasicDecoder<RmsNorm, Rotary, PagedAttention, GatedSilu>; ///< Llama, Qwen2, Qwen3
using MixtralDecoder = BasicDecoder<RmsNorm, Rotary, PagedAttention, Experts>;
/// DeepSeek-V2 and V3, with and without experts
using LatentDecoder = BasicDecoder<RmsNorm, Rotary, PagedAttention, Experts, LatentHeads>;
/// Qwen3-Next, with and without experts
using DeltaDecoder = BasicDecoder<OffsetRmsNorm, Rotary, PagedAttention, Experts, DeltaHeads>;
using OptDecoder = BasicDecoder<LayerNorm, Learned, PagedAttention, Relu>;

/// A decoder for the configuration, for K and V in blocks of `block_tokens` f32 tokens, on `threads` threads including
/// the caller's. The decoder reads the embedding, the learned positions, the last norm and the head at the addresses in
/// `weights`, whose bytes must outlive the decoder. The layers come with each call.
///
/// Returns null for combinations that no model family has, such as rotary positions with LayerNorm: with twelve
/// compositions instead of three, a file that includes this header took 4 s longer to compile. A program that wants
/// another composition names it: BasicDecoder<LayerNorm, Rotary, …>.
[[nodiscard]] inline std::unique_ptr<Decoder> make_decoder(const ModelWeights& weights, Tokens block_tokens,
                                                           int threads) {
  SLUICE_ASSERT(!weights.embedding.empty() && !weights.head.empty(), "an embedding and a head");
  const DecoderConfig& config = weights.config;
  const bool recurs = config.shape.has_states();
  if (recurs != config.gated_heads || recurs != (config.norm == NormKind::rms_offset)) return nullptr;
  if (recurs && config.position == PositionKind::rotary && config.mlp != MlpKind::relu)
    return std::make_unique<DeltaDecoder>(weights, block_tokens, threads);
  if (config.norm == NormKind::rms && config.position == PositionKind::rotary) {
    if (config.shape.has_latents())
      return config.mlp != MlpKind::relu ? std::make_unique<LatentDecoder>(weights, block_tokens, threads) : nullptr;
    if (config.mlp == MlpKind::gated_silu) return std::make_unique<LlamaDecoder>(weights, block_tokens, threads);
    if (config.mlp == MlpKind::experts) return std::make_unique<MixtralDecoder>(weights, block_tokens, threads);
  }
  if (config.norm == NormKind::layer && config.position == PositionKind::learned && config.mlp == MlpKind::relu)
    return std::make_unique<OptDecoder>(weights, block_tokens, threads);
  return nullptr;
}

} // namespace sluice

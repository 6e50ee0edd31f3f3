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

namespace detail {

template <class Norm, class Position>
std::unique_ptr<Decoder> make_decoder(const ModelWeights& weights, Tokens block_tokens, int threads) {
  switch (weights.config.mlp) {
  case MlpKind::gated_silu:
    return std::make_unique<BasicDecoder<Norm, Position, PagedAttention, GatedSilu>>(weights, block_tokens, threads);
  case MlpKind::relu:
    return std::make_unique<BasicDecoder<Norm, Position, PagedAttention, Relu>>(weights, block_tokens, threads);
  case MlpKind::experts:
    return std::make_unique<BasicDecoder<Norm, Position, PagedAttention, Experts>>(weights, block_tokens, threads);
  }
  return nullptr;
}

} // namespace detail

/// A decoder of the configuration's parts, for K and V in blocks of `block_tokens` f32 tokens, on `threads` threads,
/// the caller's included. It reads the embedding, the learned positions, the last norm and the head where `weights`
/// says; those bytes must live as long as it does. The layers come with each call.
[[nodiscard]] inline std::unique_ptr<Decoder> make_decoder(const ModelWeights& weights, Tokens block_tokens,
                                                           int threads) {
  SLUICE_ASSERT(!weights.embedding.empty() && !weights.head.empty(), "an embedding and a head");
  const bool rms = weights.config.norm == NormKind::rms;
  if (weights.config.position == PositionKind::rotary) {
    return rms ? detail::make_decoder<RmsNorm, Rotary>(weights, block_tokens, threads)
               : detail::make_decoder<LayerNorm, Rotary>(weights, block_tokens, threads);
  }
  return rms ? detail::make_decoder<RmsNorm, Learned>(weights, block_tokens, threads)
             : detail::make_decoder<LayerNorm, Learned>(weights, block_tokens, threads);
}

} // namespace sluice

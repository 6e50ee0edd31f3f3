// SPDX-License-Identifier: Apache-2.0
// decoder_of: the decoder of a model that is known by its shape alone.
#pragma once

#include "sluice/decoder/config.hpp"
#include "sluice/model/shape.hpp"

namespace sluice {

/// What a shape computes by its family: one whose MLP is not gated is an OPT, all others of `named_models` are Llamas,
/// Qwens and Mixtrals. (Of a folder's config.json the reader says it all: checkpoint/nlohmann/decoder_config.hpp.)
[[nodiscard]] inline DecoderConfig decoder_of(const ModelShape& shape) {
  DecoderConfig decoder;
  decoder.shape = shape;
  if (shape.experts > 0) decoder.mlp = MlpKind::experts;
  if (!shape.gated_mlp) {
    decoder.norm = NormKind::layer;
    decoder.position = PositionKind::learned;
    decoder.mlp = MlpKind::relu;
  }
  return decoder;
}

} // namespace sluice

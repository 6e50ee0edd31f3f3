// SPDX-License-Identifier: Apache-2.0
// weights_digest: a number that tells two models' weights apart.
#pragma once

#include "sluice/core/fnv.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice {

/// 16 hexadecimal digits of all tensors' sizes and of 16 pieces of 64 bytes from each, evenly apart. Training changes
/// every tensor, so other weights have another digest; reading all of them would take seconds per model that is larger
/// than memory. Weights can be made to have a given digest.
[[nodiscard]] inline std::string weights_digest(const ModelWeights& weights) {
  static constexpr std::int64_t pieces = 16, piece = 64; // bytes
  Fnv digest;
  const auto add = [&digest](const std::byte* at, std::int64_t bytes) {
    digest.add(bytes);
    const std::int64_t apart = std::max(piece, bytes / pieces);
    for (std::int64_t from = 0; from < bytes; from += apart) digest.add(at + from, std::min(piece, bytes - from));
  };
  weights.lay_out(1, [&](Matrix OuterWeights::*member, std::int64_t) {
    const Matrix& matrix = weights.*member;
    add(matrix.row(0), matrix.rows * matrix.row_bytes());
  });
  for (const auto& layer : weights.layers)
    for (std::size_t i = 0; i < layer.size(); ++i) add(layer[i], weights.layout.places[i].bytes());
  return digest.text();
}

} // namespace sluice

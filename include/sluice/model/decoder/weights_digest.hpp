// SPDX-License-Identifier: Apache-2.0
// weights_digest: a number that tells two models' weights apart.
#pragma once

#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice {
namespace detail {

/// FNV-1a, 64 bits.
class Fnv {
 public:
  void add(const std::byte* at, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; ++i) {
      value_ ^= static_cast<std::uint64_t>(at[i]);
      value_ *= 0x100000001b3ULL;
    }
  }
  void add(std::int64_t number) {
    for (int i = 0; i < 8; ++i) {
      const std::byte byte{static_cast<unsigned char>(static_cast<std::uint64_t>(number) >> (8 * i))};
      add(&byte, 1);
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

} // namespace detail

/// 16 hexadecimal digits of all tensors' sizes and of 16 pieces of 64 bytes from each, evenly apart. Training changes
/// every tensor, so other weights have another digest; reading all of them would take seconds per model that is larger
/// than memory. Weights can be made to have a given digest.
[[nodiscard]] inline std::string weights_digest(const ModelWeights& weights) {
  static constexpr std::int64_t pieces = 16, piece = 64; // bytes
  detail::Fnv digest;
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
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(digest.value() >> shift) & 15U];
  return text;
}

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// ProductCall and ProductWeights: one matrix product of a decoder.
#pragma once

#include "sluice/model/decoder/kinds.hpp"

#include "kernels/products/product_segments.hpp"

#include <cstdint>

namespace sluice::kernels {

/// A projection's matrix, row-major [outputs][inputs], as checkpoints store it, in at most two places: if a share of a
/// layer streams, the rows from `split` on are elsewhere (`sluice::Matrix`, whose members these are). Both places
/// 16-byte aligned.
struct ProductWeights {
  const void* head = nullptr; ///< rows 0 .. split - 1
  const void* tail = nullptr; ///< rows split .. outputs - 1
  int split = 0;

  [[nodiscard]] static constexpr ProductWeights whole(const void* data, int outputs) {
    return {data, nullptr, outputs};
  }

  friend bool operator==(const ProductWeights&, const ProductWeights&) = default;
};

/// y[row][n] = sum over k of x[row][k] W[n][k], plus bias[n], plus the old y[row][n] if it accumulates. Sums are in
/// f32, in that order (`segments` may cut the sum over k), and rounded once to y's type. This is exact for f32 and for
/// the emulator. Tensor cores add the products of 16 inputs of f16 and bf16 to a sum that is aligned to the largest of
/// them and truncated (Fasi et al., "Numerical behavior of NVIDIA tensor cores", 2021), always in the same way. After
/// rounding to 16 bits the difference disappears, so a GPU has the emulator's limits (relative L2 of 1e-3 in f16, 4e-3
/// in bf16); for y in f32 (`wide`) the limit is 1e-6 on the emulator and 1e-4 on a GPU. Weights, bias and activations
/// have one type: widening weights to another type of x would need another kernel, which no model that this project
/// serves needs.
///
/// TileProduct and GroupedProduct index packets of 16 bytes in 32 bits, and their `grid` asserts that this suffices: W
/// has fewer than 2^31 packets (32 GiB), and so have 128 rows of x including the gaps between them.
struct ProductCall {
  const void* x = nullptr; ///< [rows][inputs], 16-byte aligned
  ProductWeights w;
  const void* bias = nullptr; ///< [outputs], or nothing
  void* y = nullptr;          ///< [rows][outputs]; it shares no byte with x
  std::int64_t x_stride = 0;  ///< numbers from one row of x to the next, whole packets of 16 bytes
  std::int64_t y_stride = 0;  ///< numbers from one row of y to the next
  int rows = 0;               ///< of x and y; 0 is no work
  int outputs = 0;            ///< rows of W
  int inputs = 0;             ///< columns of W: whole packets of 16 bytes, the unit of copies
  ElementType element = ElementType::f32;
  bool accumulate = false;       ///< y += instead of y =, for results added to the residual stream
  bool wide = false;             ///< y is f32 whatever `element` is, for logits, whose differences a sampler takes
  ProductSegments segments = {}; ///< of TileProduct; libraries split sums as they like

  friend bool operator==(const ProductCall&, const ProductCall&) = default;
};

} // namespace sluice::kernels

// SPDX-License-Identifier: Apache-2.0
// ProductCall and ProductWeights: one matrix product as a decoder asks for it.
#pragma once

#include "sluice/model/decoder/kinds.hpp"

#include <cstdint>

namespace sluice::kernels {

/// A projection's matrix, row-major [outputs][inputs], as checkpoints store it, in two places at most: where a share of
/// a layer streams, the rows from `split` on lie elsewhere (`sluice::Matrix`, whose members these are). Both places
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

/// y[row][n] = sum over k of x[row][k] W[n][k], plus bias[n], plus what y[row][n] was where it accumulates. Sums are in
/// f32, in that order, and rounded once to y's type. That is exact of f32 and of the emulator; tensor cores add the
/// products of 16 inputs of f16 and bf16 to a sum aligned to the largest of them and truncated (Fasi et al., "Numerical
/// behavior of NVIDIA tensor cores", 2021), always alike. Rounded to 16 bits that is lost, and a card is held to the
/// emulator's limits (relative L2 of 1e-3 in f16, 4e-3 in bf16); of y in f32 (`wide`) the emulator is held to 1e-6 and
/// a card to 1e-4. Weights, bias and activations are numbers of one type: a product that widens weights to another type
/// of x is another kernel, which no model that this project serves needs.
///
/// TileProduct and GroupedProduct index packets of 16 bytes in 32 bits, and their `grid` asserts that it is enough: W
/// has fewer than 2^31 packets (32 GiB), and so have 128 rows of x with what lies between them.
struct ProductCall {
  const void* x = nullptr; ///< [rows][inputs], 16-byte aligned
  ProductWeights w;
  const void* bias = nullptr; ///< [outputs], or nothing
  void* y = nullptr;          ///< [rows][outputs]; it shares no byte with x
  std::int64_t x_stride = 0;  ///< numbers from one row of x to the next, whole packets of 16 bytes
  std::int64_t y_stride = 0;  ///< numbers from one row of y to the next
  int rows = 0;               ///< of x and y; none is no work
  int outputs = 0;            ///< rows of W
  int inputs = 0;             ///< columns of W: whole packets of 16 bytes, of which the copies are
  ElementType element = ElementType::f32;
  bool accumulate = false; ///< y += instead of y =: the way back to the residual stream
  bool wide = false;       ///< y is f32 whatever `element` is: logits, of which a sampler takes differences

  friend bool operator==(const ProductCall&, const ProductCall&) = default;
};

} // namespace sluice::kernels

// SPDX-License-Identifier: Apache-2.0
// Product: the concept of an implementation that multiplies a decoder's activations by its weights, and its calls.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/kinds.hpp"

#include "kernels/device.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace sluice::kernels {

// ProductSegments: the fixed split of a product's inputs into segments, each with a sum of its own.

/// Cuts the sums of y = x W^T into segments of inputs, which start at fixed inputs. Each segment's sum starts at zero;
/// the segments' sums are added in ascending order. Whether a block computes one segment (the last block of a tile to
/// arrive adds them up) or all segments of its tile, the bits are the same. So blocks may be chosen by the number of
/// rows, and rows keep their bits.
///
/// Not checked: `partials` and `arrivals` belong to one launch at a time.
struct ProductSegments {
  int inputs = 0;            ///< of a segment, a multiple of 64; 0: all inputs are one segment
  int sms = 132;             ///< of the GPU (an H100's): affects only the choice of blocks
  float* partials = nullptr; ///< in device memory: sums of segments
  std::int64_t numbers = 0;  ///< room at `partials`: at least 2^14, a tile of 128 rows
  int* arrivals = nullptr;   ///< in device memory: zeros, and zeros again after each launch
  int most_arrivals = 0;     ///< room at `arrivals`: tiles whose segments are computed by different blocks

  friend bool operator==(const ProductSegments&, const ProductSegments&) = default;
};

/// ProductSegments::inputs of a matrix, as many segments as 33 to 64 rows need to fill a GPU: 128 blocks of 64 rows and
/// 128 outputs, since today's cards have 108 to 148 SMs. Depends on the matrix alone: a partition that depended on the
/// rows or the card would change a row's bits with its batch or its card. `outputs` are those of all matrices that are
/// multiplied by the same x, since neighbours may be one product or several. A segment has at least `least` inputs:
/// shorter ones would spend more time on starting and adding up than on products.
[[nodiscard]] constexpr int segment_inputs(std::int64_t outputs, std::int64_t inputs, int least = 512) {
  constexpr std::int64_t blocks = 128, tile_outputs = 128, multiple = 64;
  const std::int64_t tiles = std::max<std::int64_t>(1, (outputs + tile_outputs - 1) / tile_outputs);
  const std::int64_t segments = std::min((blocks + tiles - 1) / tiles, inputs / least);
  if (segments <= 1) return 0;
  const std::int64_t each = (inputs + segments - 1) / segments;
  return static_cast<int>((each + multiple - 1) / multiple * multiple);
}

// ProductCall and ProductWeights: one matrix product of a decoder.

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

/// The stream on which a product is enqueued: CUDA's, or the emulator's.
template <class P>
concept NamesItsStream = requires {
  typename P::Stream;
};

/// `invariant`: whether a row's bits are independent of the call's number of rows and of the row's position among them.
/// Required without a default, so that no product can forget to state it.
template <class P>
concept SaysWhetherInvariant = requires {
  { P::invariant } -> std::same_as<const bool&>;
};

/// `workspace()`: device memory in use while a call runs, which a memory plan must count.
template <class P>
concept SaysItsWorkspace = requires(const P& product) {
  { product.workspace() } -> std::same_as<Bytes>;
};

/// Multiplies activations by weights, asynchronously, on a stream.
///
///  1. `product(stream, call)` enqueues y = x W^T + bias (+ y) and returns; after an error, nothing was enqueued, or
///     y's contents are undefined. Zero rows are no error and no work.
///  2. `P::invariant` states whether rows are independent of the number of rows. A decoder whose rebuilt or chunked
///     prefixes must have the bits of the first time needs an invariant product.
///  3. `workspace()` is constant.
///
/// Not checked: the caller keeps a call's pointers valid until the stream has done it; calls one product from one
/// thread at a time; and, if the product has a workspace, uses streams that are ordered among each other.
///
/// Models: `CublasLt` (fast), and in tests `EmulatedProduct` (our own tiles, invariant).
template <class P>
concept Product = NamesItsStream<P> && SaysWhetherInvariant<P> && SaysItsWorkspace<P> &&
    requires(P& product, typename P::Stream stream, const ProductCall& call) {
  { product(stream, call) } -> std::same_as<Status>;
};

/// A product for uses in which rows must keep their bits.
template <class P>
concept InvariantProduct = Product<P> && P::invariant;

} // namespace sluice::kernels

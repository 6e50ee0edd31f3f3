// SPDX-License-Identifier: Apache-2.0
// TileProduct: y = x W^T by our own tiles, so that a row's bits do not depend on the other rows.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/products/product_tile.hpp"
#include "kernels/shared_array.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

struct TileProductConfig {
  ElementType element = ElementType::bf16;
  int tile_rows = 64; ///< 16, 64 or 128: affects only speed, not the bits
  friend bool operator==(const TileProductConfig&, const TileProductConfig&) = default;
};

using TileProductParams = ProductCall;

/// The fastest tile size for a number of rows. A tile of 16 rows has a quarter of the others' outputs: up to 32 rows,
/// four times as many blocks that read W twice, the second time from the L2 cache, are faster.
[[nodiscard]] constexpr int tile_rows_for(int rows) { return rows <= 32 ? 16 : rows <= 256 ? 64 : 128; }

/// A thread block for each tile of `ProductTile` (which defines the order of sums), or for each segment of a tile's
/// sums, if tiles alone would leave SMs idle (ProductSegments). Consecutive blocks share their outputs, so that W is
/// read from memory once for all rows.
template <TileProductConfig config>
struct TileProduct {
  using Params = TileProductParams;
  using Tile = ProductTile<config.element, config.tile_rows>;
  using Shared = typename Tile::Shared;
  static constexpr int threads = Tile::threads;
  static constexpr int ctas_per_sm = Tile::ctas_per_sm;

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.element == config.element, "a product of this configuration's type");
    SLUICE_ASSERT(params.inputs % Tile::packet == 0 && params.x_stride % Tile::packet == 0,
                  "rows of x and W are whole packets of 16 bytes");
    SLUICE_ASSERT(aligned(params.x, params.w.head, params.w.tail), "x and W begin at multiples of 16 bytes");
    SLUICE_ASSERT(params.rows >= 0 && params.outputs >= 0 && params.inputs >= 0 && params.w.split >= 0,
                  "a product's sizes");
    SLUICE_ASSERT(Tile::indexable(params.outputs, params.inputs, params.x_stride),
                  "W and a tile's rows of x have fewer than 2^31 packets");
    SLUICE_ASSERT(params.segments.inputs >= 0 && params.segments.inputs % 64 == 0 && params.segments.sms > 0,
                  "segments of whole steps of every tile");
    SLUICE_ASSERT(Tile::small || segments(params) == 1 || tiles(params) * Tile::numbers <= params.segments.numbers,
                  "room for the sums of every tile (each_launch)");
    return {pieces(params.rows, Tile::rows), pieces(params.outputs, Tile::outputs) * blocks_of_tile(params)};
  }

  template <class C>
    requires(config.element == ElementType::f32 ? AsyncCopyCta<C> : TensorCta<C>)
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    using T = ElementOf<config.element>;
    const int of_tile = blocks_of_tile(params);
    const int output_tile = cta.block_y() / of_tile;
    const std::int64_t first = static_cast<std::int64_t>(cta.block_x()) * Tile::rows;
    void* y = static_cast<T*>(params.y) + first * params.y_stride;
    if (params.wide) y = static_cast<float*>(params.y) + first * params.y_stride;
    Tile::run(cta, shared,
              TileJob{.x = static_cast<const T*>(params.x) + first * params.x_stride,
                      .x_stride = params.x_stride,
                      .w = params.w,
                      .bias = params.bias,
                      .y = y,
                      .y_stride = params.y_stride,
                      .rows = static_cast<int>(params.rows - first),
                      .first_output = output_tile * Tile::outputs,
                      .outputs = params.outputs,
                      .inputs = params.inputs,
                      .accumulate = params.accumulate,
                      .wide = params.wide,
                      .segments = {.of = segments(params) > 1 ? &params.segments : nullptr,
                                   .only = of_tile > 1 ? cta.block_y() % of_tile : -1,
                                   .tile = output_tile * cta.blocks_x() + cta.block_x()}});
  }

 private:
  SLUICE_HOST_DEVICE static constexpr std::int64_t tiles(const Params& params) {
    return std::int64_t{pieces(params.rows, Tile::rows)} * pieces(params.outputs, Tile::outputs);
  }
  SLUICE_HOST_DEVICE static constexpr int segments(const Params& params) {
    const int each = params.segments.inputs;
    return each > 0 && each < params.inputs ? pieces(params.inputs, each) : 1;
  }
  /// The segments of a tile, if each has a block, otherwise 1. A tile of 16 rows adds up in registers, which costs
  /// nothing; larger ones add up in memory, and an SM needs several of them.
  SLUICE_HOST_DEVICE static constexpr int blocks_of_tile(const Params& params) {
    const ProductSegments& of = params.segments;
    const std::int64_t all = tiles(params);
    const bool idle = Tile::small ? all * 4 < std::int64_t{of.sms} * 3 : all < std::int64_t{of.sms} * 2;
    const bool room = all <= of.most_arrivals && all * segments(params) * Tile::numbers <= of.numbers;
    return idle && room ? segments(params) : 1;
  }
};

/// Calls `launch(call)` with as many rows of `call` at a time as the sums of its segments have room for: all of them,
/// if there is one segment.
template <class Launch>
void each_launch(ProductCall call, const Launch& launch) {
  constexpr int most = 128; // rows and outputs of a tile
  const int all = call.rows;
  const bool cut = call.segments.inputs > 0 && call.segments.inputs < call.inputs && call.outputs > 0;
  const std::int64_t room = cut ? call.segments.numbers / (most * most) / pieces(call.outputs, most) * most : all;
  SLUICE_ASSERT(room > 0 || all == 0, "room for the sums of 128 rows");
  const std::int64_t bytes = bytes_of(call.element), y_bytes = call.wide ? bytes_of(ElementType::f32) : bytes;
  for (int first = 0; first < all || first == 0; first += call.rows) {
    call.rows = static_cast<int>(all - first < room ? all - first : room);
    launch(call);
    if (call.rows == 0) return;
    call.x = static_cast<const std::byte*>(call.x) + call.rows * call.x_stride * bytes;
    call.y = static_cast<std::byte*>(call.y) + call.rows * call.y_stride * y_bytes;
  }
}

} // namespace sluice::kernels

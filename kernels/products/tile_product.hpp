// SPDX-License-Identifier: Apache-2.0
// TileProduct: y = x W^T by our own tiles, so that a row's bits do not depend on the other rows.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/aligned.hpp"
#include "kernels/products/product_tile.hpp"

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

/// One thread block for each tile of `ProductTile` (which defines the order of sums). Consecutive blocks share their
/// outputs, so that W is read from memory once for all rows.
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
    return {pieces(params.rows, Tile::rows), pieces(params.outputs, Tile::outputs)};
  }

  template <class C>
    requires(config.element == ElementType::f32 ? AsyncCopyCta<C> : TensorCta<C>)
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    using T = ElementOf<config.element>;
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
                      .first_output = cta.block_y() * Tile::outputs,
                      .outputs = params.outputs,
                      .inputs = params.inputs,
                      .accumulate = params.accumulate,
                      .wide = params.wide});
  }
};

} // namespace sluice::kernels

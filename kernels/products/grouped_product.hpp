// SPDX-License-Identifier: Apache-2.0
// GroupedProduct: y = x W^T with each row's expert's weights, in one launch.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/products/product_tile.hpp"
#include "kernels/shared_array.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice::kernels {

struct GroupedProductConfig {
  ElementType element = ElementType::bf16;
  int tile_rows = 16; ///< 16, 64 or 128: affects only speed, not the bits
  friend bool operator==(const GroupedProductConfig&, const GroupedProductConfig&) = default;
};

/// Products of rows in the order of their experts. The tables are in device memory: routing happens there, and the host
/// does not know how many rows an expert has.
struct GroupedProductParams {
  const void* x = nullptr;                 ///< [rows][inputs], as ProductCall's
  const ProductWeights* weights = nullptr; ///< in device memory, [experts]: each [outputs][inputs]
  const int* offsets = nullptr; ///< in device memory, [experts + 1], ascending from 0: expert e has rows offsets[e] ..
                                ///< offsets[e + 1] - 1
  const void* const* biases = nullptr; ///< in device memory, [experts] of [outputs], or nothing
  void* y = nullptr;                   ///< [rows][outputs]
  std::int64_t x_stride = 0;
  std::int64_t y_stride = 0;
  int rows = 0; ///< at least offsets[experts]: tokens times experts per token. Further rows are not written.
  int experts = 0;
  int outputs = 0;
  int inputs = 0;
  ElementType element = ElementType::f32;
  bool accumulate = false;
  bool wide = false; ///< y is f32

  friend bool operator==(const GroupedProductParams&, const GroupedProductParams&) = default;
};

/// Tiles like TileProduct's, with the same bits. A tile belongs to one expert, and the grid has the largest possible
/// number of tiles. Each warp finds its block's expert by summing the tiles of 32 experts at once; blocks beyond the
/// last tile end.
template <GroupedProductConfig config>
struct GroupedProduct {
  using Params = GroupedProductParams;
  using Tile = ProductTile<config.element, config.tile_rows>;
  using Shared = typename Tile::Shared;
  static constexpr int threads = Tile::threads;
  static constexpr int ctas_per_sm = Tile::ctas_per_sm;

  /// The most row tiles that `rows` rows can need: the last tile of each expert with rows may have one row.
  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.element == config.element, "a product of this configuration's type");
    SLUICE_ASSERT(params.inputs % Tile::packet == 0 && params.x_stride % Tile::packet == 0,
                  "rows of x and W are whole packets of 16 bytes");
    SLUICE_ASSERT(aligned(params.x), "x begins at a multiple of 16 bytes");
    SLUICE_ASSERT(params.rows >= 0 && params.experts >= 0 && params.outputs >= 0 && params.inputs >= 0,
                  "a product's sizes");
    SLUICE_ASSERT(Tile::indexable(params.outputs, params.inputs, params.x_stride),
                  "W and a tile's rows of x have fewer than 2^31 packets");
    const std::int64_t filled = std::min(params.rows, params.experts); // experts that have rows
    const std::int64_t tiles = (params.rows + filled * (Tile::rows - 1)) / Tile::rows;
    return {static_cast<int>(tiles), pieces(params.outputs, Tile::outputs)};
  }

  template <class C>
    requires(config.element == ElementType::f32 ? AsyncCopyCta<C> : TensorCta<C>)
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    using T = ElementOf<config.element>;
    const Found found = find(cta, params, cta.block_x());
    if (found.rows <= 0) return;
    const std::int64_t first = found.first_row;
    void* y = static_cast<T*>(params.y) + first * params.y_stride;
    if (params.wide) y = static_cast<float*>(params.y) + first * params.y_stride;
    Tile::run(cta, shared,
              TileJob{.x = static_cast<const T*>(params.x) + first * params.x_stride,
                      .x_stride = params.x_stride,
                      .w = params.weights[found.expert],
                      .bias = params.biases != nullptr ? params.biases[found.expert] : nullptr,
                      .y = y,
                      .y_stride = params.y_stride,
                      .rows = found.rows,
                      .first_output = cta.block_y() * Tile::outputs,
                      .outputs = params.outputs,
                      .inputs = params.inputs,
                      .accumulate = params.accumulate,
                      .wide = params.wide});
  }

 private:
  struct Found {
    int expert, first_row;
    int rows; ///< of the expert from `first_row` on; 0 if there is no such tile
  };

  /// The expert and the rows of row tile `tile`. The same for all threads, and a warp needs no other warp for it.
  template <Cta C>
  SLUICE_DEVICE static Found find(const C& cta, const Params& params, int tile) {
    int before = 0; // tiles of the experts before these 32
    for (int base = 0; base < params.experts; base += warp_lanes) {
      const int expert = base + cta.lane();
      const bool there = expert < params.experts;
      const int first = there ? params.offsets[expert] : 0;
      const int end = there ? params.offsets[expert + 1] : 0;
      const int tiles = pieces(end - first, Tile::rows);
      int through = tiles; // tiles of these experts up to this lane's
      SLUICE_UNROLL
      for (int by = 1; by < warp_lanes; by *= 2) {
        const int left = cta.shuffle_up(through, by, full_warp);
        if (cta.lane() >= by) through += left;
      }
      const std::uint32_t beyond = cta.ballot(before + through > tile, full_warp);
      if (beyond != 0) {
        const int lane = lowest_bit(beyond);
        const int skipped = cta.shuffle(through - tiles, lane, full_warp);
        const int begin = cta.shuffle(first, lane, full_warp) + (tile - before - skipped) * Tile::rows;
        return {base + lane, begin, cta.shuffle(end, lane, full_warp) - begin};
      }
      before += cta.shuffle(through, warp_lanes - 1, full_warp);
    }
    return {0, 0, 0};
  }
};

} // namespace sluice::kernels

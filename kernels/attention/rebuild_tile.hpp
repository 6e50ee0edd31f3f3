// SPDX-License-Identifier: Apache-2.0
// RebuildTile: one thread block computes K and V of some tokens and heads from hidden states and stores them in blocks.
#pragma once

#include "kernels/attention/divisor.hpp"
#include "kernels/products/product_tile.hpp"
#include "kernels/rows/head_halves.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

/// Names have the same meanings as in ProductCall and RopeAndStoreParams, which do the same in two launches. All
/// pointers are to memory that the device can read; blocks and `workspace` are written, and 16-byte aligned.
struct RebuildParams {
  const void* hidden = nullptr;     ///< [rows][inputs], 16-byte aligned: the projections' input, already normalised
  std::int64_t hidden_stride = 0;   ///< numbers from one row to the next, whole packets of 16 bytes
  ProductWeights qkv;               ///< [(heads + 2 kv_heads) head_dim][inputs], the queries' rows are not read
  const void* qkv_bias = nullptr;   ///< [(heads + 2 kv_heads) head_dim]; null: none
  const void* key_norm = nullptr;   ///< [head_dim]; null: none
  const double* turns = nullptr;    ///< [head_dim / 2]; null: nothing is rotated
  const int* positions = nullptr;   ///< [rows]
  const int* sequences = nullptr;   ///< [rows]: whose K and V they are
  const int* first_block = nullptr; ///< [sequences]: where in `blocks` its blocks begin
  void* const* blocks = nullptr;
  Divisor block_tokens;
  void* workspace = nullptr; ///< `RebuildTile::workspace` numbers for each thread block that rebuilds
  int rows = 0;
  int inputs = 0;
  int heads = 0; ///< of queries, the first rows of `qkv`
  int kv_heads = 0;
  float epsilon = 1e-5F; ///< of the norm
};

/// Projects a tile of hidden states by `ProductTile`, then turns and stores the heads as `RopeAndStore` does, with the
/// same roundings in between, so rebuilt K and V have the same bits as the first time. A tile has whole heads only, and
/// no thread block waits for another. The projected tile goes through global memory (16 KiB that stay in the L2 cache):
/// in shared memory it would halve the thread blocks per SM of compute capability 8.0.
template <ElementType element, int head_dim>
struct RebuildTile {
  using T = ElementOf<element>;
  using Product = ProductTile<element, 64>;
  using Shared = typename Product::Shared;
  using Halves = HeadHalves<T, head_dim>;
  using Floats = typename Halves::Floats;

  static constexpr int threads = Product::threads;
  static constexpr int rows = Product::rows;
  static constexpr int heads_at_once = Product::outputs / head_dim;
  static constexpr int workspace = rows * Product::outputs;
  static_assert(heads_at_once >= 1, "sluice: a tile holds a head");

  /// Number of tiles over K's and V's heads, taken as one row of heads.
  [[nodiscard]] SLUICE_HOST_DEVICE static constexpr int tiles(const RebuildParams& params) {
    return pieces(params.rows, rows) * pieces(2 * params.kv_heads, heads_at_once);
  }

  /// Blocks with several tiles may call it again immediately; `mine` is this block's part of the workspace.
  template <TensorCta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const RebuildParams& params, int tile, T* mine) {
    const int row_tiles = pieces(params.rows, rows);
    const int first_row = tile % row_tiles * rows; // neighbours share the weights
    const int first_head = tile / row_tiles * heads_at_once;
    const int left = params.rows - first_row;
    const int heads_left = 2 * params.kv_heads - first_head;
    const int tile_rows = left < rows ? left : rows;
    const int tile_heads = heads_left < heads_at_once ? heads_left : heads_at_once;
    Product::run(cta, shared,
                 TileJob{.x = static_cast<const T*>(params.hidden) + first_row * params.hidden_stride,
                         .x_stride = params.hidden_stride,
                         .w = from(params.qkv, (params.heads + first_head) * head_dim, params.inputs),
                         .bias = nullptr,
                         .y = mine,
                         .y_stride = Product::outputs,
                         .rows = tile_rows,
                         .first_output = 0,
                         .outputs = tile_heads * head_dim,
                         .inputs = params.inputs,
                         .accumulate = false,
                         .wide = false});
    cta.sync(); // the tile is complete, and no thread reads shared memory any more
    constexpr int group = Halves::group, per_warp = warp_lanes / group;
    for (int base = cta.warp() * per_warp; base < tile_rows * tile_heads; base += threads / group) {
      const int unit = base + cta.lane() / group;
      const bool there = unit < tile_rows * tile_heads && cta.lane() % group < Halves::packets;
      const int row = there ? unit / tile_heads : 0;
      const int head = there ? unit % tile_heads : 0;
      store(cta, params, first_row + row, first_head + head, there, mine + row * Product::outputs + head * head_dim);
    }
  }

 private:
  /// The matrix from its row `first` on.
  SLUICE_DEVICE static ProductWeights from(const ProductWeights& all, int first, int inputs) {
    const auto row = [inputs](const void* part, int at) {
      return static_cast<const void*>(static_cast<const T*>(part) + static_cast<std::int64_t>(at) * inputs);
    };
    if (first >= all.split) return ProductWeights::whole(row(all.tail, first - all.split), Product::outputs);
    return {row(all.head, first), all.tail, all.split - first};
  }

  /// One head of K or V. V's follow K's, in `qkv` and in the block.
  template <TensorCta C>
  SLUICE_DEVICE static void store(const C& cta, const RebuildParams& params, int row, int head, bool there,
                                  const T* from) {
    const int at = Halves::low_at(cta.lane());
    const bool is_key = head < params.kv_heads;
    Halves halves;
    if (there) {
      halves.low.load_written(from, at, 0, true);
      halves.high.load_written(from, Halves::half + at, 0, true);
      if (params.qkv_bias != nullptr)
        halves.add(static_cast<const T*>(params.qkv_bias) + (params.heads + head) * head_dim, at);
    }
    if (params.key_norm != nullptr)
      halves.normalise(cta, there && is_key ? static_cast<const T*>(params.key_norm) : nullptr, at, params.epsilon);
    if (!there) return;
    const int position = params.positions[row];
    if (is_key && params.turns != nullptr)
      halves.rotate(at, [&](int pair) { return cosine_and_sine(position * params.turns[pair]); });
    const int block = params.block_tokens.quotient(position);
    const int token = position - block * params.block_tokens.value();
    T* const to = static_cast<T*>(params.blocks[params.first_block[params.sequences[row]] + block]) +
                  (static_cast<std::int64_t>(head) * params.block_tokens.value() + token) * head_dim;
    halves.store(to, at);
  }
};

} // namespace sluice::kernels

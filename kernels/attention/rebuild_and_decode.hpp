// SPDX-License-Identifier: Apache-2.0
// RebuildAndDecode: rebuilds K and V of some prefixes while other sequences decode, in one launch whose blocks are
// split.
#pragma once

#include "sluice/policy/cost/fused_kernels.hpp"

#include "kernels/attention/paged_attention.hpp"
#include "kernels/attention/rebuild_tile.hpp"

namespace sluice::kernels {

/// How many of `ctas` thread blocks rebuild: in the ratio of the two volumes (eLLM, equations 8 and 9, or their
/// corrected form), at least one for each side. eLLM splits the threads of every block in steps of a warp, for which it
/// compiles 31 kernels. Splitting blocks needs one kernel, the GPU places them itself, and the two roles share no
/// barrier. The cost model assumes the same ratio (`rebuilding_threads`).
[[nodiscard]] constexpr int rebuilding_ctas(double rebuilt_volume, double decoded_volume, int ctas) {
  return rebuilding_threads(rebuilt_volume, decoded_volume, ctas * warp_threads) / warp_threads;
}

struct RebuildAndDecodeConfig {
  ElementType element = ElementType::bf16;
  int head_dim = 128;

  friend bool operator==(const RebuildAndDecodeConfig&, const RebuildAndDecodeConfig&) = default;
};

/// A side without work needs no thread block.
struct RebuildAndDecodeParams {
  RebuildParams rebuild;
  PagedAttentionParams attention; ///< its tiles for this kernel's `tile_rows`
  int rebuild_ctas = 0;           ///< the first blocks of the grid, which rebuild
  int decode_ctas = 0;            ///< the others, which attend
};

/// eLLM's horizontal fusion (section 4.3.2): the fused K1 and K2, of complementary demand, K1 on tensor cores and K2 on
/// memory. K1 here is the projection of hidden states to K and V of the next layer to decode, K2 attention. Each block
/// takes every n-th piece of its role's work, where n is the role's number of blocks: with `rebuild_ctas` and
/// `decode_ctas` multiples of the number of SMs, all of which fit the device at once, every SM usually gets its share
/// of both (CUDA guarantees no placement: blocks are assigned in the order of their numbers as SMs have room). Neither
/// result depends on the split: a tile's bits depend only on the tile in both roles.
///
/// **Blocks that are rebuilt in a launch must not be attended to in it**: nothing orders the two roles. Rebuild another
/// layer's blocks, or prefixes of sequences that do not decode in the launch.
template <RebuildAndDecodeConfig config>
struct RebuildAndDecode {
  using Params = RebuildAndDecodeParams;
  using Rebuild = RebuildTile<config.element, config.head_dim>;
  using Attention = PagedAttention<PagedAttentionConfig{
      .element = config.element, .head_dim = config.head_dim, .warps = Rebuild::threads / warp_lanes}>;
  using T = typename Rebuild::T;

  static constexpr int tile_rows = Attention::tile_rows;
  static constexpr int threads = Rebuild::threads;
  static constexpr int ctas_per_sm = 2;
  static_assert(threads == Attention::threads);

  union Shared {
    typename Rebuild::Shared rebuild;
    typename Attention::Shared attention;
  };

  [[nodiscard]] static Grid grid(const Params& params) {
    [[maybe_unused]] const RebuildParams& rebuild = params.rebuild;
    Attention::check(params.attention);
    SLUICE_ASSERT(params.rebuild_ctas >= 0 && params.decode_ctas >= 0, "a split of thread blocks");
    SLUICE_ASSERT(params.rebuild_ctas > 0 || rebuild.rows == 0, "blocks that rebuild");
    SLUICE_ASSERT(params.decode_ctas > 0 || params.attention.tile_count == 0, "blocks that attend");
    SLUICE_ASSERT(params.rebuild_ctas == 0 || rebuild.workspace != nullptr, "room for projected tiles");
    SLUICE_ASSERT(rebuild.inputs % Floats::size == 0 && rebuild.hidden_stride % Floats::size == 0,
                  "rows of hidden states and weights are whole packets of 16 bytes");
    return {params.rebuild_ctas + params.decode_ctas, 1};
  }

  template <TensorCta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    if (cta.block_x() < params.rebuild_ctas) {
      T* const mine =
          static_cast<T*>(params.rebuild.workspace) + static_cast<std::int64_t>(cta.block_x()) * Rebuild::workspace;
      const int tiles = Rebuild::tiles(params.rebuild);
      for (int tile = cta.block_x(); tile < tiles; tile += params.rebuild_ctas)
        Rebuild::run(cta, shared.rebuild, params.rebuild, tile, mine);
    } else {
      const int heads = params.attention.kv_heads;
      for (int at = cta.block_x() - params.rebuild_ctas; at < params.attention.tile_count * heads;
           at += params.decode_ctas) {
        Attention::attend(cta, shared.attention, params.attention, params.attention.tiles[at / heads], at % heads);
        cta.sync(); // all threads have read the pages that the next tile's pages overwrite
      }
    }
  }

 private:
  using Floats = typename Rebuild::Floats;
};

} // namespace sluice::kernels

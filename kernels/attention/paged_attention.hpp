// SPDX-License-Identifier: Apache-2.0
// PagedAttention: causal attention over K and V in blocks, for decoding, prompts, chunks and rebuilt prefixes.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/attention/attention_fragments.hpp"
#include "kernels/attention/attention_plan.hpp"
#include "kernels/attention/divisor.hpp"
#include "kernels/attention/segment_merge.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice::kernels {

struct PagedAttentionConfig {
  ElementType element = ElementType::bf16;
  int head_dim = 128;
  int warps = 1;  ///< of 16 rows each: 1 for decoding, 4 for prompts; the bits are the same
  int stages = 2; ///< pages in shared memory: one being computed, the others being fetched

  friend bool operator==(const PagedAttentionConfig&, const PagedAttentionConfig&) = default;
};

/// All pointers are to memory that the device can read; those to parts of an AttentionPlan are to the caller's copies.
/// `query`, `result`, `values`, each block and each row of queries (`query_stride`) are 16-byte aligned.
struct PagedAttentionParams {
  const void* query =
      nullptr;            ///< row r, KV head h, head g of its group at r * query_stride + (h * group + g) * head_dim
  void* result = nullptr; ///< as `query`, with `result_stride`
  int query_stride = 0;   ///< elements from one row of the activations to the next; a multiple of a packet's
  int result_stride = 0;

  /// K then V, each [KV head][token of the block][head_dim]. **K and V of a sequence's tokens must be finite** up to
  /// its last row in the launch; the rest may hold anything. Rows of a tile share their products with V: a row has
  /// weight 0 for a token after its own, and 0 times infinity is NaN.
  void* const* blocks = nullptr;
  const int* first_block = nullptr; ///< index in `blocks` of each sequence's first block; its block i has tokens i *
                                    ///< block_tokens and on. Only blocks whose tokens a row sees are read, and only
                                    ///< their table entries
  Divisor block_tokens;             ///< `Divisor{n}` for RopeAndStoreParams::block_tokens = n, which divides once per
                                    ///< row

  const AttentionTile* tiles = nullptr; ///< AttentionPlan::tiles, for this kernel's `tile_rows`
  int tile_count = 0;
  int kv_heads = 1;
  int group = 1;   ///< query heads per KV head
  float scale = 1; ///< of scores, above 0; usually 1 / sqrt(head_dim)

  /// For partial row p and KV head h, at p * kv_heads + h: the sum of values weighted by 2^(score - maximum),
  /// [head_dim]; the largest score; the sum of the weights. Scores are in units of ln 2. They have room for
  /// AttentionPlan::partial_rows, and hold the running sums of a tile with several segments. Null if there are no
  /// partial rows.
  float* values = nullptr;
  float* maxima = nullptr;
  float* totals = nullptr;

  friend bool operator==(const PagedAttentionParams&, const PagedAttentionParams&) = default;
};

/// Softmax(q K^T scale) V of each row's heads over the tokens up to its own (grouped heads: Ainslie et al., "GQA",
/// 2023), K and V stored before. It takes one pass with running maxima (Milakov and Gimelshein, "Online normalizer
/// calculation for softmax", 2018), with a warp for sixteen rows and a block of `warps` for one KV head.
///
/// A row's bits depend only on that row: on its query and on its sequence's K and V, with pages in ascending order
/// within segments that begin at fixed positions. A token that the row does not see has weight 0, which changes no sum
/// of finite numbers (the emulator asserts that they are finite). The other rows of the tile, `warps`, `stages`,
/// `block_tokens` and the batch do not affect the order. Segments are merged in ascending order (SegmentMerge): by the
/// block, if its tile has them all, otherwise by `MergeSegments`.
template <PagedAttentionConfig config>
  requires(config.head_dim % 16 == 0 && config.warps >= 1 && config.stages >= 2)
struct PagedAttention {
  using Params = PagedAttentionParams;
  using T = ElementOf<config.element>;
  using Fragments = AttentionFragments<T, config.head_dim>;
  using Page = typename Fragments::Page;

  static constexpr int head_dim = config.head_dim;
  static constexpr int warps = config.warps;
  static constexpr int stages = config.stages;
  static constexpr int page_tokens = Fragments::page_tokens;
  static constexpr int tile_rows = 16 * warps;
  static constexpr int threads = warps * warp_lanes;
  static_assert(AttentionSegments::short_tokens % page_tokens == 0);
  static_assert(page_tokens % warps == 0);

  struct Stage {
    Page keys;
    Page values;
  };
  /// A row's running softmax over the segments so far, without its values, which are in PagedAttentionParams::values.
  struct Folded {
    float maximum, total;
  };
  struct Shared {
    SharedArray<Stage, stages> stage;
    SharedArray<typename Fragments::Room, warps> room;
    /// The block's AttentionTile: wide heads leave no registers for a copy, and a reference into global memory would be
    /// read again after each barrier.
    alignas(AttentionTile) SharedArray<std::byte, sizeof(AttentionTile)> tile;
    SharedArray<Folded, 2 * tile_rows> folded; ///< of even segments, then of odd ones
  };
  /// Limited by the shared memory of compute capability 9.0 (228 KiB; each block takes 1 KiB in addition); 8.0 fits one
  /// fewer for long heads. Registers never limit it.
  static constexpr int most_ctas = 228 * 1024 / (static_cast<int>(sizeof(Shared)) + 1024);
  static constexpr int ctas_per_sm = most_ctas < (warps == 1 ? 3 : 2) ? most_ctas : (warps == 1 ? 3 : 2);

  [[nodiscard]] static Grid grid(const Params& params) {
    check(params);
    return {params.tile_count, params.kv_heads};
  }
  static void check([[maybe_unused]] const Params& params) {
    SLUICE_ASSERT(params.kv_heads >= 1 && params.group >= 1, "heads");
    SLUICE_ASSERT(params.scale > 0, "a positive scale: maxima are taken before scaling");
    SLUICE_ASSERT(params.query_stride % Packet<T>::size == 0 && params.result_stride % 2 == 0, "aligned rows");
    SLUICE_ASSERT(std::int64_t{2} * params.kv_heads * params.block_tokens.value() * head_dim <=
                      std::numeric_limits<int>::max(),
                  "elements of a block in an int");
  }

  template <TensorCta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    auto& tile = reinterpret_cast<AttentionTile&>(shared.tile[0]);
    if (cta.thread() == 0) tile = params.tiles[cta.block_x()];
    cta.sync();
    attend(cta, shared, params, tile, cta.block_y());
  }

  /// A block's whole work: one tile and one KV head.
  template <TensorCta C>
  SLUICE_DEVICE static void attend(const C& cta, Shared& shared, const Params& params, const AttentionTile& tile,
                                   int head) {
    const int lane = cta.lane();
    const int first = AttentionSegments::begin(tile.segment);
    const int tokens = tile.position + (tile.first_head + tile.rows - 1) / params.group + 1; // tokens that its last row
                                                                                             // sees
    const int behind = AttentionSegments::begin(tile.segment + tile.segments);
    const int end = behind < tokens ? behind : tokens;
    const bool folds = tile.segment == 0 && behind >= tokens;
    const int pages = pieces(end - first, page_tokens);
    void* const* const blocks = params.blocks + params.first_block[tile.sequence];

    SLUICE_UNROLL
    for (int s = 0; s < stages - 1; ++s) {
      if (s < pages) fetch(cta, shared.stage[s], params, blocks, head, first + s * page_tokens, end);
      cta.commit();
    }

    typename Fragments::Room& room = shared.room[cta.warp()];
    Fragments fragments{};
    int sees[2]; // tokens that this lane's two rows see
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Row row = find(params, tile, cta.warp() * 16 + half * 8 + lane / 4);
      sees[half] = row.sees;
      fragments.take(lane, room, half,
                     row.sees > 0 ? static_cast<const T*>(params.query) +
                                        (static_cast<std::int64_t>(row.row) * params.query_stride +
                                         (head * params.group + row.head) * head_dim)
                                  : nullptr);
    }

    Sums<head_dim / 8> values = {};
    const bool idle = cta.warp() * 16 >= tile.rows; // it still fetches
    float maximum[2] = {lowest_score, lowest_score};
    float total[2] = {0, 0};
    int segment = tile.segment;
    const float scale = params.scale * 1.44269504F; // the hardware computes 2^x
    for (int p = 0; p < pages; ++p) {
      const int at = first + p * page_tokens;
      cta.sync(); // all threads have read the stage that is overwritten next
      if (p + stages - 1 < pages)
        fetch(cta, shared.stage[(p + stages - 1) % stages], params, blocks, head, at + (stages - 1) * page_tokens, end);
      cta.commit();
      cta.template wait<stages - 1>();
      cta.sync(); // all threads' copies of this page have arrived
      const Stage& stage = shared.stage[p % stages];

      if (idle) continue;
      Sums<page_tokens / 8> weights;
      fragments.score(cta, room, stage.keys, weights);
      SLUICE_UNROLL
      for (int half = 0; half < 2; ++half)
        weigh(cta, half, sees[half] - at, scale, weights, maximum[half], total[half], values);
      fragments.add(cta, room, stage.values, weights, values);

      if (p + 1 < pages && at + page_tokens != AttentionSegments::begin(segment + 1)) continue;
      SLUICE_UNROLL
      for (int half = 0; half < 2; ++half) {
        leave(cta, shared, params, tile, head, half, segment, folds, maximum[half], total[half], values);
        maximum[half] = lowest_score;
        total[half] = 0;
      }
      SLUICE_UNROLL
      for (int n = 0; n < head_dim / 8; ++n) {
        SLUICE_UNROLL
        for (int i = 0; i < 4; ++i) values[n][i] = 0;
      }
      ++segment;
    }
  }

 private:
  struct Row {
    int sees; ///< tokens; 0 if the tile has no such row
    int row;  ///< of the activations
    int head; ///< of the group
  };
  SLUICE_DEVICE static Row find(const Params& params, const AttentionTile& tile, int i) {
    const int token = (tile.first_head + i) / params.group;
    return {i < tile.rows ? tile.position + token + 1 : 0, tile.first_row + token,
            tile.first_head + i - token * params.group};
  }

  /// Writes a row's part of `segment` to memory: as the result if no segment follows, into the row's running sums if
  /// the block folds, or unchanged, for a later merge. Running sums do not fit in registers; a lane reads only its own
  /// writes.
  template <TensorCta C>
  SLUICE_DEVICE static void leave(const C& cta, Shared& shared, const Params& params, const AttentionTile& tile,
                                  int head, int half, int segment, bool folds, float maximum, float total,
                                  const Sums<head_dim / 8>& values) {
    const int lane = cta.lane();
    const int i = cta.warp() * 16 + half * 8 + lane / 4;
    const Row row = find(params, tile, i);
    if (row.sees <= AttentionSegments::begin(segment)) return;
    const bool alone = !folds && row.sees > AttentionSegments::begin(1); // left for MergeSegments
    const std::int64_t partial =
        static_cast<std::int64_t>(tile.partial + i + (alone ? (segment - tile.segment) * tile.rows : 0)) *
            params.kv_heads +
        head;
    if (alone) {
      SLUICE_UNROLL
      for (int n = 0; n < head_dim / 8; ++n)
        store_pair(params.values + (partial * head_dim + Fragments::column(lane, n)), values[n][half * 2],
                   values[n][half * 2 + 1]);
      if (lane % 4 == 0) {
        params.maxima[partial] = maximum;
        params.totals[partial] = total;
      }
      return;
    }
    Folded folded{lowest_score, 0};
    // Four lanes read what one wrote at the segment before; the block has synchronised since.
    if (segment > 0) folded = shared.folded[(segment - 1) % 2 * tile_rows + i];
    const SegmentMerge merge = SegmentMerge::of(folded.maximum, maximum);
    folded = {merge.maximum, merge(folded.total, total)};
    if (lane % 4 == 0) shared.folded[segment % 2 * tile_rows + i] = folded;
    const bool last = row.sees <= AttentionSegments::begin(segment + 1);
    T* const result = static_cast<T*>(params.result) + (static_cast<std::int64_t>(row.row) * params.result_stride +
                                                        (head * params.group + row.head) * head_dim);
    SLUICE_UNROLL
    for (int n = 0; n < head_dim / 8; ++n) {
      const int column = Fragments::column(lane, n);
      const std::int64_t at = partial * head_dim + column;
      float before[2] = {0, 0};
      if (segment > 0) load_pair(before, params.values + at);
      const float first = merge(before[0], values[n][half * 2]);
      const float second = merge(before[1], values[n][half * 2 + 1]);
      if (last)
        store_pair(result + column, narrow<T>(first / folded.total), narrow<T>(second / folded.total));
      else
        store_pair(params.values + at, first, second);
    }
  }

  /// Fetches the tokens `first` .. of one page, with zeros from `end` on; each warp fetches its share. A lane looks up
  /// one token's address once for all packets of its row. At most eight packets at a time (two of wide heads): all
  /// addresses at once would take more registers than are left.
  template <TensorCta C>
  SLUICE_DEVICE static void fetch(const C& cta, Stage& into, const Params& params, void* const* blocks, int head,
                                  int first, int end) {
    constexpr int share = page_tokens / warps;
    constexpr int known = share < warp_lanes ? share : warp_lanes; // tokens whose addresses a warp has at a time
    constexpr int rounds = known * Page::packets / warp_lanes;
    constexpr int at_once = largest_divisor(rounds, head_dim > 128 ? 2 : 8); // packets at a time
    static_assert(share % known == 0 && known * Page::packets % warp_lanes == 0);
    const int block_tokens = params.block_tokens.value();
    const int to_values = params.kv_heads * block_tokens * head_dim;
    SLUICE_KEEP_LOOP
    for (int base = cta.warp() * share; base < (cta.warp() + 1) * share; base += known) {
      const int mine = first + base + cta.lane() % known;
      const int token = mine < end ? mine : first;
      const int block = params.block_tokens.quotient(token);
      const T* const keys =
          static_cast<const T*>(blocks[block]) + (head * block_tokens + token - block * block_tokens) * head_dim;
      SLUICE_KEEP_LOOP
      for (int round = 0; round < rounds; round += at_once) {
        SLUICE_UNROLL
        for (int i = 0; i < at_once; ++i) {
          const int at = (round + i) * warp_lanes + cta.lane();
          const int row = at / Page::packets;
          const int packet = at % Page::packets;
          const bool wanted = first + base + row < end;
          const T* const key = reinterpret_cast<const T*>(cta.shuffle(reinterpret_cast<std::uintptr_t>(keys), row)) +
                               packet * Packet<T>::size;
          if (wanted) expect_finite(key, key + to_values);
          cta.copy_async(into.keys.at(base + row, packet), key, wanted);
          cta.copy_async(into.values.at(base + row, packet), key + to_values, wanted);
        }
      }
    }
  }

  static constexpr int largest_divisor(int of, int most) {
    while (of % most != 0) --most;
    return most;
  }

  /// On the emulator: the fetched packets of K and V are finite, as PagedAttentionParams::blocks requires.
  SLUICE_DEVICE static void expect_finite([[maybe_unused]] const T* key, [[maybe_unused]] const T* value) {
#if !defined(__CUDACC__)
    for (int i = 0; i < Packet<T>::size; ++i)
      SLUICE_ASSERT(std::isfinite(widen(key[i])) && std::isfinite(widen(value[i])), "finite K and V");
#endif
  }

  /// Turns a page's scores into weights for the row `half`, which sees the page's first `sees` tokens, and updates
  /// `maximum`, `total` and the `values` so far.
  template <TensorCta C>
  SLUICE_DEVICE static void weigh(const C& cta, int half, int sees, float scale, Sums<page_tokens / 8>& weights,
                                  float& maximum, float& total, Sums<head_dim / 8>& values) {
    const int first = cta.lane() % 4 * 2;
    float largest = lowest_score;
    SLUICE_UNROLL
    for (int n = 0; n < page_tokens / 8; ++n) {
      SLUICE_UNROLL
      for (int i = 0; i < 2; ++i) {
        float& one = weights[n][half * 2 + i];
        if (n * 8 + first + i >= sees) one = lowest_score;
        largest = larger(largest, one);
      }
    }
    largest = larger(largest, cta.shuffle_xor(largest, 1));
    largest = larger(largest, cta.shuffle_xor(largest, 2));
    const float now = larger(maximum, largest * scale);
    const float keep = exp2_fast(maximum - now);
    maximum = now;
    float sum = 0;
    SLUICE_UNROLL
    for (int n = 0; n < page_tokens / 8; ++n) {
      SLUICE_UNROLL
      for (int i = 0; i < 2; ++i) {
        float& one = weights[n][half * 2 + i];
        one = exp2_fast(fused(one, scale, -now)); // 0 for `lowest_score`, unless the row has seen no token
        sum += one;
      }
    }
    sum += cta.shuffle_xor(sum, 1);
    sum += cta.shuffle_xor(sum, 2);
    total = fused(total, keep, sum);
    SLUICE_UNROLL
    for (int n = 0; n < head_dim / 8; ++n) {
      values[n][half * 2] *= keep;
      values[n][half * 2 + 1] *= keep;
    }
  }
};

} // namespace sluice::kernels

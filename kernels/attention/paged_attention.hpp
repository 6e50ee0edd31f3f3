// SPDX-License-Identifier: Apache-2.0
// PagedAttention: causal attention over K and V in blocks, for decoding, prompts, chunks and rebuilt prefixes.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/attention/attention_fragments.hpp"
#include "kernels/attention/attention_plan.hpp"
#include "kernels/device.hpp"

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
  /// AttentionPlan::partial_rows. `values` also holds the running sums of a tile with several segments, except
  /// those in shared memory (PagedAttention::shared_pairs). Null if there are no partial rows.
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
  /// Heads that leave no registers for finding a page while the one before is fetched and computed, as others do, so
  /// that no warp waits for the table.
  static constexpr bool wide = head_dim > 128;
  static_assert(AttentionSegments::short_tokens % page_tokens == 0);
  static_assert(page_tokens % warps == 0);

  struct Stage {
    Page keys;
    Page values;
  };
  /// A row's running softmax over the segments so far, without its values.
  struct Folded {
    float maximum, total;
  };
  /// What a block needs in any case.
  struct Work {
    SharedArray<Stage, stages> stage;
    SharedArray<typename Fragments::Room, warps> room;
    /// The block's AttentionTile: wide heads leave no registers for a copy, and a reference into global memory would be
    /// read again after each barrier.
    alignas(AttentionTile) SharedArray<std::byte, sizeof(AttentionTile)> tile;
    SharedArray<Folded, 2 * tile_rows> folded; ///< of even segments, then of odd ones
  };
  /// Limited by the shared memory of compute capability 9.0 (228 KiB; each block takes 1 KiB in addition); 8.0 fits one
  /// fewer for long heads. Registers never limit it.
  static constexpr int most_ctas = 228 * 1024 / (static_cast<int>(sizeof(Work)) + 1024);
  static constexpr int ctas_per_sm = most_ctas < (warps == 1 ? 3 : 2) ? most_ctas : (warps == 1 ? 3 : 2);

  /// A thread's running sums of its two rows, in pairs, and how many of them prompts keep in shared memory: through
  /// memory they took a fifth of a prompt's time on an H200. Two blocks must still fit an SM of 9.0, and one the 99 KiB
  /// of 8.6, 8.9 and 12.0 if it did before; 8.0 then holds one block of heads of 128 instead of two. Decoding rows
  /// rarely fold, and a third block of theirs is worth more.
  static constexpr int thread_pairs = head_dim / 4;
  static constexpr int small_card = 99 * 1024;
  static constexpr int most_bytes = static_cast<int>(sizeof(Work)) <= small_card ? small_card : 228 * 1024 / 2 - 1024;
  static constexpr int fitting =
      (most_bytes - static_cast<int>(sizeof(Work))) / (threads * static_cast<int>(sizeof(FloatPair)));
  static constexpr int shared_pairs = warps == 1 || fitting < 0 ? 0 : fitting < thread_pairs ? fitting : thread_pairs;

  struct Shared : Work {
    SharedArray<FloatPair, shared_pairs == 0 ? 1 : shared_pairs * threads> sums; ///< only a pair's thread uses it
  };

  [[nodiscard]] static Grid grid(const Params& params) {
    check(params);
    return {params.kv_heads, params.tile_count}; // blocks begin head by head: the longest tiles of all heads first
  }
  static void check([[maybe_unused]] const Params& params) {
    SLUICE_ASSERT(params.kv_heads >= 1 && params.group >= 1, "heads");
    SLUICE_ASSERT(params.tile_count <= 65535, "a grid"); // 262,140 rows of four heads in a group, if none is split
    SLUICE_ASSERT(params.scale > 0, "a positive scale: maxima are taken before scaling");
    SLUICE_ASSERT(params.query_stride % Packet<T>::size == 0 && params.result_stride % 2 == 0, "aligned rows");
    SLUICE_ASSERT(std::int64_t{2} * params.kv_heads * params.block_tokens.value() * head_dim <=
                      std::numeric_limits<int>::max(),
                  "elements of a block in an int");
  }

  template <TensorCta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    auto& tile = reinterpret_cast<AttentionTile&>(shared.tile[0]);
    if (cta.thread() == 0) tile = params.tiles[cta.block_y()];
    cta.sync();
    attend(cta, shared, params, tile, cta.block_x());
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

    PagePlace next{}; // of the page that is fetched next
    SLUICE_UNROLL
    for (int s = 0; s < stages; ++s) {
      const int at = first + s * page_tokens;
      if (s < pages && (!wide || s < stages - 1)) next = find_page(cta, params, blocks, head, at, end);
      if (s == stages - 1) break;
      if (s < pages) fetch(cta, shared.stage[s], params, next, at, end);
      cta.commit();
    }

    typename Fragments::Room& room = shared.room[cta.warp()];
    Fragments fragments{};
    const int all_see = find(params, tile, cta.warp() * 16).sees; // tokens that all rows of this warp see
    int sees[2];                                                  // those that this lane's two rows see
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Row row = find(params, tile, cta.warp() * 16 + half * 8 + lane / 4);
      sees[half] = row.sees > 0 ? row.sees : all_see; // a row that the tile lacks is written nowhere
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
      const int ahead = at + (stages - 1) * page_tokens;
      if (p + stages - 1 < pages) {
        if (wide) next = find_page(cta, params, blocks, head, ahead, end);
        fetch(cta, shared.stage[(p + stages - 1) % stages], params, next, ahead, end);
      }
      cta.commit();
      if (!wide && p + stages < pages) next = find_page(cta, params, blocks, head, ahead + page_tokens, end);
      cta.template wait<stages - 1>();
      cta.sync(); // all threads' copies of this page have arrived
      const Stage& stage = shared.stage[p % stages];

      if (idle) continue;
      Sums<page_tokens / 8> weights;
      fragments.score(cta, room, stage.keys, weights);
      const int seen[2] = {sees[0] - at, sees[1] - at};
      if (at + page_tokens > all_see)
        weigh<true>(cta, seen, scale, weights, maximum, total, values);
      else
        weigh<false>(cta, seen, scale, weights, maximum, total, values);
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

  /// Takes a row's part of `segment`: into the result if no segment follows, into the row's running sums if the block
  /// folds, or unchanged into memory, for a later merge. Running sums do not fit in registers; a lane reads only its
  /// own writes.
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
    const float part = SegmentMerge::part(folded.total);
    T* const result = static_cast<T*>(params.result) + (static_cast<std::int64_t>(row.row) * params.result_stride +
                                                        (head * params.group + row.head) * head_dim);
    SLUICE_UNROLL
    for (int n = 0; n < head_dim / 8; ++n) {
      const int column = Fragments::column(lane, n);
      const int pair = half * (head_dim / 8) + n;
      const auto sums = [&] { // not before they are needed: a tile of one segment may have no memory for them
        return pair < shared_pairs ? shared.sums[pair * threads + cta.thread()].of
                                   : params.values + (partial * head_dim + column);
      };
      float before[2] = {0, 0};
      if (segment > 0) load_pair(before, sums());
      const float first = merge(before[0], values[n][half * 2]);
      const float second = merge(before[1], values[n][half * 2 + 1]);
      if (last)
        store_pair(result + column, narrow<T>(times(first, part)), narrow<T>(times(second, part)));
      else
        store_pair(sums(), first, second);
    }
  }

  static constexpr int share = page_tokens / warps;                     ///< tokens of a page that a warp fetches
  static constexpr int known = share < warp_lanes ? share : warp_lanes; ///< of them, those whose place it knows at once
  static_assert(share % known == 0);
  /// Where the keys of the page's tokens are that this lane finds for its warp.
  struct PagePlace {
    const T* block[static_cast<std::size_t>(share / known)];
    int within[static_cast<std::size_t>(share / known)]; ///< elements
  };

  /// Finds the tokens `first` .. of one page; none at or behind `end` is looked up. The place is left as it was read:
  /// an addition would wait for the table here, for a quarter of a decoding block's time.
  template <TensorCta C>
  SLUICE_DEVICE static PagePlace find_page(const C& cta, const Params& params, void* const* blocks, int head, int first,
                                           int end) {
    PagePlace place;
    const int block_tokens = params.block_tokens.value();
    SLUICE_UNROLL
    for (int k = 0; k < share / known; ++k) {
      const int mine = first + cta.warp() * share + k * known + cta.lane() % known;
      const int token = mine < end ? mine : first;
      const int block = params.block_tokens.quotient(token);
      place.block[k] = static_cast<const T*>(blocks[block]);
      place.within[k] = (head * block_tokens + token - block * block_tokens) * head_dim;
    }
    return place;
  }

  /// Fetches the tokens `first` .. of one page, with zeros from `end` on; each warp fetches its share. At most eight
  /// packets at a time (two of wide heads): all addresses at once would take more registers than are left.
  template <TensorCta C>
  SLUICE_DEVICE static void fetch(const C& cta, Stage& into, const Params& params, const PagePlace& place, int first,
                                  int end) {
    constexpr int packets = Page::packets;
    constexpr int rounds = known * packets / warp_lanes;
    constexpr int at_once = largest_divisor(rounds, wide ? 2 : 8); // packets at a time
    static_assert(known * packets % warp_lanes == 0);
    const int to_values = params.kv_heads * params.block_tokens.value() * head_dim;
    const auto lane = static_cast<unsigned>(cta.lane());
    SLUICE_UNROLL
    for (int k = 0; k < share / known; ++k) {
      const int base = cta.warp() * share + k * known;
      const auto found = reinterpret_cast<std::uintptr_t>(place.block[k] + place.within[k]);
      SLUICE_KEEP_LOOP
      for (int round = 0; round < rounds; round += at_once) {
        SLUICE_UNROLL
        for (int i = 0; i < at_once; ++i) {
          // Rows of 2^n packets are written so that only `round + i` differs between a lane's packets.
          constexpr bool even = warp_lanes % packets == 0;
          const unsigned at = static_cast<unsigned>(round + i) * warp_lanes + lane;
          const int row = even ? (round + i) * (warp_lanes / packets) + static_cast<int>(lane / packets)
                               : static_cast<int>(at / packets);
          const int packet = static_cast<int>((even ? lane : at) % packets);
          const bool wanted = first + base + row < end;
          const T* const key = reinterpret_cast<const T*>(cta.shuffle(found, row)) + packet * Packet<T>::size;
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

  /// Turns a page's scores into weights for this lane's two rows, and updates `maximum`, `total` and the
  /// `values` so far. If `masked`, the rows see the page's first `sees` tokens only. Each row has two running maxima
  /// and two sums, so that an operation does not wait for the one before.
  template <bool masked, TensorCta C>
  SLUICE_DEVICE static void weigh(const C& cta, [[maybe_unused]] const int (&sees)[2], float scale,
                                  Sums<page_tokens / 8>& weights, float (&maximum)[2], float (&total)[2],
                                  Sums<head_dim / 8>& values) {
    [[maybe_unused]] const int first = cta.lane() % 4 * 2;
    float largest[2][2] = {{lowest_score, lowest_score}, {lowest_score, lowest_score}};
    SLUICE_UNROLL
    for (int n = 0; n < page_tokens / 8; ++n) {
      SLUICE_UNROLL
      for (int half = 0; half < 2; ++half) {
        SLUICE_UNROLL
        for (int i = 0; i < 2; ++i) {
          float& one = weights[n][half * 2 + i];
          if (masked && n * 8 + first + i >= sees[half]) one = lowest_score;
          largest[half][i] = larger(largest[half][i], one);
        }
      }
    }
    float keep[2];
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float most = larger(largest[half][0], largest[half][1]);
      most = larger(most, cta.shuffle_xor(most, 1));
      most = larger(most, cta.shuffle_xor(most, 2));
      const float now = larger(maximum[half], most * scale);
      keep[half] = exp2_fast(maximum[half] - now);
      maximum[half] = now;
    }
    float sum[2][2] = {};
    SLUICE_UNROLL
    for (int n = 0; n < page_tokens / 8; ++n) {
      SLUICE_UNROLL
      for (int half = 0; half < 2; ++half) {
        SLUICE_UNROLL
        for (int i = 0; i < 2; ++i) {
          float& one = weights[n][half * 2 + i];
          one = exp2_fast(fused(one, scale, -maximum[half])); // 0 for `lowest_score`, unless the row has seen no token
          sum[half][i] += one;
        }
      }
    }
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float all = sum[half][0] + sum[half][1];
      all += cta.shuffle_xor(all, 1);
      all += cta.shuffle_xor(all, 2);
      total[half] = fused(total[half], keep[half], all);
      SLUICE_UNROLL
      for (int n = 0; n < head_dim / 8; ++n) {
        values[n][half * 2] *= keep[half];
        values[n][half * 2 + 1] *= keep[half];
      }
    }
  }
};

} // namespace sluice::kernels

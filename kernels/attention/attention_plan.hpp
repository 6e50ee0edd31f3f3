// SPDX-License-Identifier: Apache-2.0
// AttentionPlan: the tiles of an iteration's attention, the segments of a row, and how their results are merged.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/device.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <vector>

namespace sluice::kernels {

// AttentionSegments: the positions at which a row's softmax is cut into segments.

/// Each segment of a sequence's tokens has a softmax of its own, which starts empty; a row's segments are merged in
/// ascending order. The cuts are a function of the position alone, so that a row keeps its bits in any batch. A plan
/// chooses how many consecutive segments a thread block attends to, which changes no bit.
///
/// The first 2048 tokens are cut every 256, so that eight sequences of 1024 tokens and eight KV heads are 256 blocks
/// (cuts every 512 left a block for each SM of an H100, and one warp does not keep an SM's share of memory busy). Later
/// tokens are cut every 512, since sequences that long have enough segments. Each cut costs a prompt a read and a write
/// of its running sums, mostly in shared memory, and a split row a write and a read of head_dim + 2 numbers: with four
/// heads in a group and 256 tokens, 3 % of the bytes of K and V.
struct AttentionSegments {
  static constexpr int short_tokens = 256, long_tokens = 512;
  static constexpr int long_from = 2048; ///< a multiple of both
  static constexpr int shorts = long_from / short_tokens;

  /// The segment of the token at `position`.
  [[nodiscard]] SLUICE_HOST_DEVICE static constexpr int of(int position) {
    return position < long_from ? position / short_tokens : position / long_tokens + (shorts - long_from / long_tokens);
  }
  /// The position of a segment's first token.
  [[nodiscard]] SLUICE_HOST_DEVICE static constexpr int begin(int segment) {
    return segment < shorts ? segment * short_tokens : (segment - (shorts - long_from / long_tokens)) * long_tokens;
  }
};

/// Default limit of a plan's partial rows for splitting: enough for 32 decoding sequences of 65536 tokens with four
/// query heads per group; 64 MiB with eight KV heads of 128. More blocks would not fit a GPU at once.
inline constexpr int attention_split_rows = 16384;

/// One sequence's rows: consecutive tokens in consecutive rows of the activations, as in `SequenceRows`.
struct AttentionRows {
  int first_row = 0;
  int rows = 0;
  int position = 0; ///< of its first row
};

/// Some rows of one sequence, with consecutive segments of its tokens, or with all tokens that its rows see. A row here
/// is one query head of one token: first the token's heads that share a KV head, then the next token's. A tile is
/// therefore full for any number of heads in a group, and may begin and end within a token.
struct AttentionTile {
  int sequence = 0;
  int first_row = 0;  ///< of the activations, its first token's
  int position = 0;   ///< of that token
  int first_head = 0; ///< of the group: of its first row
  int rows = 0;       ///< tokens times heads, at most a tile's
  int segment = 0;    ///< the first
  int segments = 1;   ///< that its block attends to; if these are all, they are folded into the results
  int partial = 0;    ///< row of the partial results for its first row and, if it has not all segments, its first one
                      ///< (the next one's is `rows` further); -1 if no row has more than one segment
};

/// An empty tile: its block attends to no page, writes no row and merges none.
inline constexpr AttentionTile no_rows{.position = -1};

/// The launches of `PagedAttention` (`tiles`) and of `MergeSegments` (`merged`: tiles of segment 0 that stand for all
/// segments of their rows; the partial rows of segment s begin at partial + s * rows).
struct AttentionPlan {
  std::vector<AttentionTile> tiles;
  std::vector<AttentionTile> merged;
  int partial_rows = 0; ///< partial rows needed for each KV head

  /// Size of PagedAttentionParams::values, maxima and totals together.
  [[nodiscard]] std::int64_t partial_bytes(int kv_heads, int head_dim) const {
    return std::int64_t{partial_rows} * kv_heads * (head_dim + 2) * static_cast<std::int64_t>(sizeof(float));
  }
};

/// `group`: query heads per KV head. `tile_rows`: `PagedAttention::tile_rows` of the kernel that will run. Sequences
/// without rows have no tile.
///
/// Rows with several segments are split, a block for some consecutive segments, or folded, one block for all: the bits
/// are the same. A block gets as many segments as leave about `blocks` blocks (for each KV head), so that a few long
/// sequences do not leave a GPU idle, and many sequences do not pay for partial results. The longest rows are split
/// first, as long as their partial rows (one for each row and segment) are at most `split_rows`. A folded row has one
/// partial row, its running sum, for any length. So `partial_rows` is at most `split_rows` plus `group` for each row.
/// For a prompt of 8192 tokens and 32 heads of 128 that is 128 MiB; splitting all of it would take 1.6 GB.
///
/// `plan` is rebuilt in its own memory, and `wanted` is scratch memory, so a plan no larger than an earlier one
/// allocates nothing.
inline void plan_attention(std::span<const AttentionRows> sequences, int group, int tile_rows, int split_rows,
                           int blocks, AttentionPlan& plan, std::vector<AttentionTile>& wanted) {
  SLUICE_ASSERT(group >= 1 && tile_rows >= 1 && blocks >= 1, "a head in a group, a row in a tile, a block");
  plan.tiles.clear();
  plan.merged.clear();
  plan.partial_rows = 0;
  wanted.clear();
  std::int64_t all_segments = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const AttentionRows& sequence = sequences[s];
    SLUICE_ASSERT(sequence.rows >= 0 && sequence.position >= 0, "non-negative row counts and positions");
    const int all = sequence.rows * group;
    for (int first = 0; first < all; first += tile_rows) {
      AttentionTile tile;
      tile.sequence = static_cast<int>(s);
      tile.first_row = sequence.first_row + first / group;
      tile.position = sequence.position + first / group;
      tile.first_head = first % group;
      tile.rows = std::min(tile_rows, all - first);
      tile.segments = AttentionSegments::of(sequence.position + (first + tile.rows - 1) / group) + 1;
      all_segments += tile.segments;
      wanted.push_back(tile);
    }
  }
  // The longest first: they are split first, and blocks start in this order, so the short ones fill the gaps that the
  // long ones leave. Ties go to the earlier one, without the memory of a stable sort.
  std::sort(wanted.begin(), wanted.end(), [](const AttentionTile& a, const AttentionTile& b) {
    return std::tuple{b.segments, a.sequence, a.first_row, a.first_head} <
           std::tuple{a.segments, b.sequence, b.first_row, b.first_head};
  });

  const int most = static_cast<int>(std::max<std::int64_t>(1, all_segments / blocks)); // segments of a block
  for (AttentionTile tile : wanted) {
    const int segments = tile.segments;
    const int shares = pieces(segments, most);
    const bool split = shares > 1 && segments * tile.rows <= split_rows;
    tile.partial = segments > 1 ? plan.partial_rows : -1;
    if (segments > 1) plan.partial_rows += split ? segments * tile.rows : tile.rows;
    if (!split) {
      plan.tiles.push_back(tile);
      continue;
    }
    split_rows -= segments * tile.rows;
    tile.segments = pieces(segments, shares);
    plan.merged.push_back(tile);
    for (; tile.segment < segments; tile.segment += tile.segments) {
      tile.segments = std::min(tile.segments, segments - tile.segment);
      plan.tiles.push_back(tile);
      tile.partial += tile.rows * tile.segments;
    }
  }
  // Again the longest first if rows were split: a later segment is twice as long as an early one. By counting, which
  // takes a fifth of the time of a sort.
  if (plan.merged.empty()) return;
  std::array<std::size_t, 65> begins{};
  const auto place = [&](const AttentionTile& tile) {
    const int seen = tile.position + (tile.first_head + tile.rows - 1) / group + 1;
    const int tokens =
        std::min(seen, AttentionSegments::begin(tile.segment + tile.segments)) - AttentionSegments::begin(tile.segment);
    return static_cast<std::size_t>(63 - std::min(63, pieces(tokens, AttentionSegments::short_tokens)));
  };
  for (const AttentionTile& tile : plan.tiles) ++begins[place(tile) + 1];
  for (std::size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
  wanted.resize(plan.tiles.size());
  for (const AttentionTile& tile : plan.tiles) wanted[begins[place(tile)]++] = tile;
  plan.tiles.swap(wanted);
}

/// The same, returning a new plan.
[[nodiscard]] inline AttentionPlan plan_attention(std::span<const AttentionRows> sequences, int group, int tile_rows,
                                                  int split_rows = attention_split_rows,
                                                  int blocks = std::numeric_limits<int>::max()) {
  AttentionPlan plan;
  std::vector<AttentionTile> wanted;
  plan_attention(sequences, group, tile_rows, split_rows, blocks, plan, wanted);
  return plan;
}

// SegmentMerge: merges the segments of a row into one softmax.

/// A row's softmax over some segments, running in ascending order: acc = acc 2^(old maximum - new) + segment
/// 2^(its maximum - new), from an `acc` of zeros with the maximum `lowest_score`. Folding segments and merging them
/// afterwards use the same operations, so the bits are the same.
struct SegmentMerge {
  float maximum;
  float keep;   ///< factor of the result so far
  float weight; ///< factor of the segment

  SLUICE_DEVICE static SegmentMerge of(float before, float segment) {
    const float maximum = larger(before, segment);
    return {maximum, exp2_fast(before - maximum), exp2_fast(segment - maximum)};
  }
  /// The factor of a row's merged values. One division for a row: one for each value had a slow path each, 2,000
  /// instructions in all.
  SLUICE_DEVICE static float part(float total) { return 1.0F / total; }
  SLUICE_DEVICE float operator()(float before, float segment) const { return fused(weight, segment, before * keep); }
};

} // namespace sluice::kernels

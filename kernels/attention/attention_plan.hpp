// SPDX-License-Identifier: Apache-2.0
// AttentionPlan: the tiles of an iteration's attention, and which of their results are merged afterwards.
#pragma once

#include "sluice/core/assert.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace sluice::kernels {

/// Tokens of a segment. Each segment's softmax begins from nothing, and segments are cut at multiples of this number
/// from position 0 on: not at what would share the work best, because then a row's bits would depend on its batch.
inline constexpr int attention_segment_tokens = 512;

/// One sequence's rows: consecutive tokens in consecutive rows of the activations, as in `SequenceRows`.
struct AttentionRows {
  int first_row = 0;
  int rows = 0;
  int position = 0; ///< of its first row
};

/// Some rows of one sequence, and one segment of its tokens. A row here is one query head of one token: the heads that
/// share a head of K and V follow one another, then come the next token's, so that a tile is full whatever the number
/// of heads in a group, and may begin and end within a token.
struct AttentionTile {
  int sequence = 0;
  int first_row = 0;  ///< of the activations, its first token's
  int position = 0;   ///< of that token
  int first_head = 0; ///< of the group: of its first row
  int rows = 0;       ///< tokens times heads, at most a tile's
  int segment = 0;
  int partial = 0; ///< row of the partial results that is its first row's; -1 where no row has more than a segment
};

/// The launches of `PagedAttention` (`tiles`) and of `MergeSegments` (`merged`: tiles of segment 0 that stand for all
/// segments of their rows; the partial rows of segment s begin at partial + s * rows).
struct AttentionPlan {
  std::vector<AttentionTile> tiles;
  std::vector<AttentionTile> merged;
  int partial_rows = 0; ///< that there must be room for, of each K and V head
};

/// `group`: query heads of a head of K and V. `tile_rows`: of the kernel that will run, `PagedAttention::tile_rows`.
/// Sequences without rows have no tile.
[[nodiscard]] inline AttentionPlan plan_attention(std::span<const AttentionRows> sequences, int group, int tile_rows) {
  SLUICE_ASSERT(group >= 1 && tile_rows >= 1, "a head in a group, a row in a tile");
  AttentionPlan plan;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const AttentionRows& sequence = sequences[s];
    SLUICE_ASSERT(sequence.rows >= 0 && sequence.position >= 0, "rows at positions that there are");
    const int all = sequence.rows * group;
    for (int first = 0; first < all; first += tile_rows) {
      AttentionTile tile;
      tile.sequence = static_cast<int>(s);
      tile.first_row = sequence.first_row + first / group;
      tile.position = sequence.position + first / group;
      tile.first_head = first % group;
      tile.rows = std::min(tile_rows, all - first);
      const int last = sequence.position + (first + tile.rows - 1) / group;
      const int segments = last / attention_segment_tokens + 1;
      tile.partial = segments > 1 ? plan.partial_rows : -1;
      if (segments > 1) {
        plan.merged.push_back(tile);
        plan.partial_rows += segments * tile.rows;
      }
      for (; tile.segment < segments; ++tile.segment) {
        plan.tiles.push_back(tile);
        if (segments > 1) tile.partial += tile.rows;
      }
    }
  }
  return plan;
}

} // namespace sluice::kernels

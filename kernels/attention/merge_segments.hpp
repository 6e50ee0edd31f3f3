// SPDX-License-Identifier: Apache-2.0
// MergeSegments: merges the results of rows whose attention has more than one segment.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/attention/attention_plan.hpp"
#include "kernels/cta.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

struct MergeSegmentsConfig {
  ElementType element = ElementType::bf16;
  int head_dim = 128;

  friend bool operator==(const MergeSegmentsConfig&, const MergeSegmentsConfig&) = default;
};

/// All pointers are to memory that the device can read.
struct MergeSegmentsParams {
  const AttentionTile* merged = nullptr; ///< the caller's copy of AttentionPlan::merged; if empty, nothing is launched
  int merged_count = 0;
  int kv_heads = 1;
  int group = 1;
  const float* values = nullptr; ///< these three are PagedAttention's output
  const float* maxima = nullptr;
  const float* totals = nullptr;
  void* result = nullptr; ///< row r, KV head h, head g of its group at r * result_stride + (h * group + g) * head_dim
  int result_stride = 0;

  friend bool operator==(const MergeSegmentsParams&, const MergeSegmentsParams&) = default;
};

/// Merges a row's segments in ascending order; a row with one segment is skipped, since `PagedAttention` has finished
/// it. Rejected: merging by the last block that arrives at a row, which needs a counter per row, reset for each layer;
/// and with contexts below a segment this kernel is not launched at all.
template <MergeSegmentsConfig config>
struct MergeSegments {
  using Params = MergeSegmentsParams;
  struct Shared {};
  using T = ElementOf<config.element>;

  static constexpr int head_dim = config.head_dim;
  static constexpr int threads = 128;
  static constexpr int ctas_per_sm = 8;

  [[nodiscard]] static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.kv_heads >= 1 && params.group >= 1, "heads");
    return {params.merged_count, params.kv_heads};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& /*shared*/, const Params& params) {
    constexpr int share = (head_dim + warp_lanes - 1) / warp_lanes; // numbers of a head per lane, at most
    constexpr int at_once = share > 3 ? 24 / share : 8; // segments whose values are loaded before the first is merged
    const AttentionTile tile = params.merged[cta.block_x()];
    const int head = cta.block_y();
    for (int row = cta.warp(); row < tile.rows; row += threads / warp_lanes) {
      const int token = (tile.first_head + row) / params.group;
      const int segments = AttentionSegments::of(tile.position + token) + 1;
      if (segments == 1) continue;
      const auto partial = [&](int segment) {
        return static_cast<std::int64_t>(tile.partial + segment * tile.rows + row) * params.kv_heads + head;
      };
      float maximum = lowest_score;
      float total = 0;
      float sum[static_cast<std::size_t>(share)] = {};
      for (int base = 0; base < segments; base += warp_lanes) { // maxima and totals of 32 segments at once
        const int mine = base + cta.lane() < segments ? base + cta.lane() : base;
        const float maxima = params.maxima[partial(mine)];
        const float totals = params.totals[partial(mine)];
        const int count = segments - base < warp_lanes ? segments - base : warp_lanes;
        for (int some = 0; some < count; some += at_once) {
          float values[static_cast<std::size_t>(at_once)][static_cast<std::size_t>(share)];
          SLUICE_UNROLL
          for (int s = 0; s < at_once; ++s) {
            const int segment = some + s < count ? some + s : count - 1;
            const float* const from = params.values + partial(base + segment) * head_dim;
            SLUICE_UNROLL
            for (int i = 0; i < share; ++i) {
              const int column = i * warp_lanes + cta.lane();
              values[s][i] = column < head_dim ? from[column] : 0;
            }
          }
          SLUICE_UNROLL
          for (int s = 0; s < at_once; ++s) {
            if (some + s >= count) break;
            const SegmentMerge merge = SegmentMerge::of(maximum, cta.shuffle(maxima, some + s));
            maximum = merge.maximum;
            total = merge(total, cta.shuffle(totals, some + s));
            SLUICE_UNROLL
            for (int i = 0; i < share; ++i) sum[i] = merge(sum[i], values[s][i]);
          }
        }
      }
      T* const to = static_cast<T*>(params.result) +
                    (static_cast<std::int64_t>(tile.first_row + token) * params.result_stride +
                     (head * params.group + tile.first_head + row - token * params.group) * head_dim);
      const float part = SegmentMerge::part(total);
      SLUICE_UNROLL
      for (int i = 0; i < share; ++i) {
        const int column = i * warp_lanes + cta.lane();
        if (column < head_dim) to[column] = narrow<T>(times(sum[i], part));
      }
    }
  }
};

} // namespace sluice::kernels

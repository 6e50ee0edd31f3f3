// SPDX-License-Identifier: Apache-2.0
// Place: computes each row's slot in the order of the experts.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/cta.hpp"
#include "kernels/shared_array.hpp"

#include <cstdint>

namespace sluice::kernels {

struct PlaceConfig {
  friend bool operator==(const PlaceConfig&, const PlaceConfig&) = default;
};

struct PlaceParams {
  const int* chosen = nullptr; ///< [rows][taken], from Route, read as one list
  int* offsets = nullptr;      ///< [experts + 1]: slots of expert e are offsets[e] .. offsets[e + 1] - 1
  int* slots = nullptr;        ///< [rows][taken]: where each row goes for each of its experts
  int assignments = 0;         ///< rows x taken
  int experts = 0;

  friend bool operator==(const PlaceParams&, const PlaceParams&) = default;
};

/// A stable counting sort, so that the same rows always have the same order; a shared counter would order them by
/// arrival. Each expert has a block, which counts the assignments to lower experts and to its own. Every block reads
/// the whole list twice (256 KiB for 8192 rows of 8 experts, which stays in the L2 cache), and no block waits for
/// another. Each warp has a contiguous part of the list and reads whole lines of it, several at a time: a read of the
/// L2 cache takes longer than all that is done with it.
template <PlaceConfig config = PlaceConfig{}>
struct Place {
  using Params = PlaceParams;
  static constexpr int threads = 512, ctas_per_sm = 2, warps = threads / warp_lanes;

  struct Shared {
    SharedArray<int, warps> lower, mine; ///< each warp's assignments to lower experts, and to the block's own
  };

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.assignments >= 0 && params.experts > 0, "assignments to experts");
    SLUICE_ASSERT(aligned(params.chosen), "a list that begins at a multiple of 16 bytes");
    return {params.experts, 1};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    const int expert = cta.block_x();
    const int of_warp = pieces(pieces(params.assignments, warps), of_read) * of_read;
    const int first = cta.warp() * of_warp;
    const int last = first + of_warp < params.assignments ? first + of_warp : params.assignments;
    int lower = 0, mine = 0;
    for (int at = first; at < last; at += at_once * of_read) {
      Four chosen[at_once];
      SLUICE_UNROLL
      for (int i = 0; i < at_once; ++i) chosen[i] = read(cta, params, at + i * of_read, last);
      SLUICE_UNROLL
      for (int i = 0; i < at_once; ++i) {
        SLUICE_UNROLL
        for (int j = 0; j < 4; ++j) {
          lower += chosen[i].of[j] < expert ? 1 : 0;
          mine += chosen[i].of[j] == expert ? 1 : 0;
        }
      }
    }
    SLUICE_UNROLL
    for (int with = warp_lanes / 2; with > 0; with /= 2) {
      lower += cta.shuffle_xor(lower, with, full_warp);
      mine += cta.shuffle_xor(mine, with, full_warp);
    }
    if (cta.lane() == 0) {
      shared.lower[cta.warp()] = lower;
      shared.mine[cta.warp()] = mine;
    }
    cta.sync();
    int begin = 0, before = 0, all = 0;
    for (int warp = 0; warp < warps; ++warp) {
      begin += shared.lower[warp];
      before += warp < cta.warp() ? shared.mine[warp] : 0;
      all += shared.mine[warp];
    }
    if (cta.thread() == 0) {
      params.offsets[expert] = begin;
      if (expert == params.experts - 1) params.offsets[params.experts] = begin + all;
    }
    if (mine == 0) return; // the same in all lanes of a warp
    int slot = begin + before;
    for (int at = first; at < last; at += at_once * of_read) {
      Four chosen[at_once];
      SLUICE_UNROLL
      for (int i = 0; i < at_once; ++i) chosen[i] = read(cta, params, at + i * of_read, last);
      SLUICE_UNROLL
      for (int i = 0; i < at_once; ++i) {
        int own = 0;
        SLUICE_UNROLL
        for (int j = 0; j < 4; ++j) own += chosen[i].of[j] == expert ? 1 : 0;
        if (!cta.any(own > 0, full_warp)) continue;
        int through = own; // up to this lane's
        SLUICE_UNROLL
        for (int by = 1; by < warp_lanes; by *= 2) {
          const int left = cta.shuffle_up(through, by, full_warp);
          if (cta.lane() >= by) through += left;
        }
        int to = slot + through - own;
        SLUICE_UNROLL
        for (int j = 0; j < 4; ++j)
          if (chosen[i].of[j] == expert) params.slots[at + i * of_read + cta.lane() * 4 + j] = to++;
        slot += cta.shuffle(through, warp_lanes - 1, full_warp);
      }
    }
  }

 private:
  static constexpr int of_read = 4 * warp_lanes, at_once = 4;
  struct alignas(16) Four {
    int of[4];
  };

  /// Four assignments of each lane; behind the warp's last one, those to no expert.
  template <Cta C>
  SLUICE_DEVICE static Four read(const C& cta, const Params& params, int at, int last) {
    constexpr int none = 0x7fffffff;
    const int mine = at + cta.lane() * 4;
    if (mine + 4 <= last) return *reinterpret_cast<const Four*>(params.chosen + mine);
    Four some{{none, none, none, none}};
    SLUICE_UNROLL
    for (int j = 0; j < 4; ++j)
      if (mine + j < last) some.of[j] = params.chosen[mine + j];
    return some;
  }
};

} // namespace sluice::kernels

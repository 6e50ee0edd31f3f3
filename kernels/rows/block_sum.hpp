// SPDX-License-Identifier: Apache-2.0
// block_sum: the sum of one float per thread of a block, always in the same order.
#pragma once

#include "kernels/cta.hpp"

namespace sluice::kernels {

/// Sums lanes by a tree of shuffles, then warps in ascending order. All threads call it and get the sum. `room`: reused
/// only after a `sync()`. `idle`: all lanes of this warp have 0, so that it need not shuffle.
template <Cta C>
SLUICE_DEVICE float block_sum(const C& cta, float mine, SharedArray<float, C::threads / warp_lanes>& room,
                              bool idle = false) {
  if (!idle) {
    SLUICE_UNROLL
    for (int with = warp_lanes / 2; with > 0; with /= 2) mine += cta.shuffle_xor(mine, with);
  }
  if (cta.lane() == 0) room[cta.warp()] = mine;
  cta.sync();
  float sum = 0;
  SLUICE_UNROLL
  for (int warp = 0; warp < C::threads / warp_lanes; ++warp) sum += room[warp];
  return sum;
}

} // namespace sluice::kernels

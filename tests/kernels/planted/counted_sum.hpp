// SPDX-License-Identifier: Apache-2.0
// CountedSum: the sum of a vector, one part for each block; the last block to increment a counter adds the parts in
// their order.
#pragma once

#include "kernels/cta.hpp"
#include "kernels/device.hpp"
#include "kernels/planted/bug.hpp"

namespace planted {

using namespace sluice::kernels;

struct CountedSumParams {
  const float* in; // [size]
  float* parts;    // [block]
  int* arrived;    // 0 before the launch
  float* sum;
  int* summed; // how many numbers were read
  int size;
};

template <Bug bug>
struct CountedSum {
  static constexpr int threads = 32, each = 128, ctas_per_sm = 1;
  using Params = CountedSumParams;
  struct Shared {};

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared&, const Params& params) {
    float sum = 0;
    for (int at = cta.block_x() * each + cta.lane(), i = 0; i < each / threads; ++i, at += threads)
      if (at < params.size) sum += params.in[at];
    for (int with = threads / 2; with > 0; with /= 2) sum += cta.shuffle_xor(sum, with);
    if (cta.lane() != 0) return;
    params.parts[cta.block_x()] = sum;
    if constexpr (bug != Bug::missing_fence_of_counter) cta.fence();
    const bool last = cta.atomic_add(params.arrived, 1) == cta.blocks_x() - 1;
    if (last || bug == Bug::two_blocks_one_word) *params.summed = params.size; // two_blocks_one_word
    if (!last) return;
    cta.fence();
    float all = 0;
    for (int i = 0; i < cta.blocks_x(); ++i) all += params.parts[i]; // missing_fence_of_counter
    *params.sum = all;
  }
};

} // namespace planted

// SPDX-License-Identifier: Apache-2.0
// Rotary: rotary position embedding of rows of 32, one warp per row; the halves are exchanged through shared memory.
#pragma once

#include "kernels/cta.hpp"
#include "kernels/device.hpp"
#include "kernels/planted/bug.hpp"

namespace planted {

using namespace sluice::kernels;

struct RotaryParams {
  const float *in, *cosines, *sines; // [row][32]; the angles' [row][16]
  float* out;                        // [row][32]
  int rows;
};

template <Bug bug>
struct Rotary {
  static constexpr int dim = 32, warps = 2, threads = warps * warp_lanes, ctas_per_sm = 1;
  using Params = RotaryParams;
  struct Shared {
    SharedArray<float, threads> rows;
  };

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    const int row = cta.block_x() * warps + cta.warp(), lane = cta.lane(), pair = lane % (dim / 2);
    if (row >= params.rows) return; // the whole warp; no block barrier follows
    const float mine = params.in[row * dim + lane];
    float cosine = lane < dim / 2 ? params.cosines[row * (dim / 2) + lane] : 0.0F;
    shared.rows[cta.thread()] = mine;
    if constexpr (bug != Bug::shuffle_as_barrier) cta.sync_warp();
    cosine = cta.shuffle(cosine, pair);                                     // orders only registers
    const float other = shared.rows[cta.warp() * dim + (lane ^ (dim / 2))]; // shuffle_as_barrier
    const float sine = params.sines[row * (dim / 2) + pair];
    params.out[row * dim + lane] = lane < dim / 2 ? mine * cosine - other * sine : mine * cosine + other * sine;
  }
};

} // namespace planted

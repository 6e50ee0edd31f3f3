// SPDX-License-Identifier: Apache-2.0
// ScaledRows: bulk copies load rows two ahead and store them after they were scaled in shared memory.
#pragma once

#include "kernels/cta.hpp"
#include "kernels/device.hpp"
#include "kernels/planted/bug.hpp"

namespace planted {

using namespace sluice::kernels;

struct ScaledRowsParams {
  const float* in; // [row][64]
  float* out;
  int rows;
  float scale;
};

template <Bug bug>
struct ScaledRows {
  static constexpr int dim = 64, stages = 2, threads = dim, ctas_per_sm = 1;
  static constexpr int bytes = dim * static_cast<int>(sizeof(float));
  using Params = ScaledRowsParams;
  struct Shared {
    alignas(128) SharedArray<float, dim> in[stages], out[stages];
    Mbarrier arrived[stages];
  };

  template <HopperCta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    const bool first = cta.thread() == 0;
    const auto fetch = [&](int step) {
      const int row = cta.block_x() + step * cta.blocks_x();
      if (!first || row >= params.rows) return;
      Mbarrier& barrier = shared.arrived[step % stages];
      cta.barrier_expect(barrier, bytes);
      cta.bulk_load(&shared.in[step % stages], params.in + row * dim, bytes, barrier);
    };
    if (first) {
      for (Mbarrier& barrier : shared.arrived) cta.barrier_init(barrier, 1);
      cta.fence_barrier_init();
    }
    cta.sync();
    for (int step = 0; step < stages - 1; ++step) fetch(step);
    for (int step = 0; cta.block_x() + step * cta.blocks_x() < params.rows; ++step) {
      const int row = cta.block_x() + step * cta.blocks_x(), stage = step % stages;
      fetch(step + stages - 1);
      cta.barrier_wait(shared.arrived[stage], step / stages % 2);
      const float scaled = shared.in[stage][cta.thread()] * params.scale;
      shared.out[stage][cta.thread()] = scaled; // missing_fence_of_proxy, fence_of_one_writer
      const bool fences = bug == Bug::fence_of_one_writer ? first : bug != Bug::missing_fence_of_proxy;
      if (fences) cta.fence_async();
      if (first) cta.template bulk_wait_read<stages - 2>(); // after the sync all may write the next stage's `out`
      cta.sync();
      if (first) {
        float* const to = params.out + row * dim;
        cta.bulk_store(to, &shared.out[stage], bytes); // missing_fence_of_proxy, fence_of_one_writer
        cta.bulk_commit();
      }
    }
    if (first) cta.template bulk_wait<0>();
  }
};

} // namespace planted

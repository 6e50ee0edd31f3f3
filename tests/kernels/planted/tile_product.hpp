// SPDX-License-Identifier: Apache-2.0
// TileProduct: 16 rows of 64 times 64 by 8 columns on tensor cores, with permuted rows of packets so that a matrix's
// eight rows lie in different banks.
#pragma once

#include "kernels/cta.hpp"
#include "kernels/device.hpp"
#include "kernels/planted/bug.hpp"

#include <cstdint>

namespace planted {

using namespace sluice::kernels;

struct TileProductParams {
  const Bf16 *a, *b; // [16][64], [8][64]
  float* c;          // [16][8]
};

template <Bug bug>
struct TileProduct {
  static constexpr int depth = 64, packets = depth / 8, threads = warp_lanes, ctas_per_sm = 1;
  static constexpr std::uint64_t conflicts = 0; // the kernel's statement about `load_matrices`
  using Params = TileProductParams;
  struct Shared {
    SharedArray<Packet<Bf16>, 16 * packets> a;
    SharedArray<Packet<Bf16>, 8 * packets> b;
  };
  SLUICE_DEVICE static int place(int row, int packet) {
    return row * packets + (bug == Bug::bank_conflicts ? packet : packet ^ (row % 8));
  }

  template <TensorCta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    for (int at = cta.thread(); at < 16 * packets; at += threads)
      shared.a[place(at / packets, at % packets)] = load_packet(params.a + at * 8);
    for (int at = cta.thread(); at < 8 * packets; at += threads)
      shared.b[place(at / packets, at % packets)] = load_packet(params.b + at * 8);
    cta.sync();
    const int lane = cta.lane();
    float c[4] = {};
    for (int k = 0; k < packets; k += 4) {
      std::uint32_t b[4];
      cta.load_matrices(b, &shared.b[place(lane % 8, k + lane / 8)]); // bank_conflicts
      for (int half = 0; half < 2; ++half) {
        std::uint32_t a[4];
        cta.load_matrices(a, &shared.a[place(lane % 16, k + half * 2 + lane / 16)]); // bank_conflicts
        cta.template mma<Bf16>(c, a, b[half * 2], b[half * 2 + 1]);
      }
    }
    for (int i = 0; i < 4; ++i) params.c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i];
  }
};

} // namespace planted

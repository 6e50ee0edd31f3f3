// SPDX-License-Identifier: Apache-2.0
// Route: the experts of each row and their shares, from the router's logits.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/sampling_weight.hpp"

#include "kernels/cta.hpp"
#include "kernels/rows/row_floats.hpp"

#include <cstdint>

namespace sluice::kernels {

struct RouteConfig {
  ElementType element = ElementType::bf16;

  friend bool operator==(const RouteConfig&, const RouteConfig&) = default;
};

struct RouteParams {
  const void* logits = nullptr; ///< [rows][experts], of the configuration's element
  int* chosen = nullptr;        ///< [rows][taken]: experts, best first
  float* shares = nullptr;      ///< [rows][taken]: their shares of the row, which add up to 1
  int rows = 0;
  int experts = 0; ///< at most 256
  int taken = 0;   ///< of each row, at most 8

  friend bool operator==(const RouteParams&, const RouteParams&) = default;
};

/// Chooses the `taken` experts with the largest logits; ties go to the lower expert. Shares are the softmax over the
/// chosen experts, not over all (Jiang et al., "Mixtral of Experts", 2024, 2.1). One warp per row.
template <RouteConfig config>
struct Route {
  using T = ElementOf<config.element>;
  using Params = RouteParams;
  static constexpr int threads = 128, ctas_per_sm = 8;
  static constexpr int most_experts = 256, most_taken = 8;
  struct Shared {};

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.rows >= 0 && params.experts > 0 && params.experts <= most_experts, "at most 256 experts");
    SLUICE_ASSERT(params.taken > 0 && params.taken <= most_taken && params.taken <= params.experts,
                  "at most 8 experts of a row");
    return {pieces(params.rows, threads / warp_lanes), 1};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& /*shared*/, const Params& params) {
    const int row = cta.block_x() * (threads / warp_lanes) + cta.warp();
    if (row >= params.rows) return;
    const T* const logits = static_cast<const T*>(params.logits) + std::int64_t{row} * params.experts;
    constexpr int per_lane = most_experts / warp_lanes;
    std::uint64_t places[per_lane]; // logit and expert in one number: the least is the best
    SLUICE_UNROLL
    for (int i = 0; i < per_lane; ++i) {
      const int expert = i * warp_lanes + cta.lane();
      places[i] = expert < params.experts ? sampling_place(widen(logits[expert]), expert) : ~std::uint64_t{0};
    }
    int chosen[most_taken];
    float weights[most_taken];
    float largest = 0, total = 0;
    SLUICE_UNROLL
    for (int rank = 0; rank < most_taken; ++rank) {
      if (rank >= params.taken) break;
      std::uint64_t best = places[0];
      SLUICE_UNROLL
      for (int i = 1; i < per_lane; ++i) best = places[i] < best ? places[i] : best;
      SLUICE_UNROLL
      for (int with = warp_lanes / 2; with > 0; with /= 2) {
        const std::uint64_t other = cta.shuffle_xor(best, with);
        best = other < best ? other : best;
      }
      SLUICE_UNROLL
      for (int i = 0; i < per_lane; ++i) places[i] = places[i] == best ? ~std::uint64_t{0} : places[i];
      chosen[rank] = static_cast<int>(best & 0xffffffffU);
      const float logit = widen(logits[chosen[rank]]);
      if (rank == 0) largest = logit;
      weights[rank] = exponential(logit - largest);
      total += weights[rank];
    }
    if (cta.lane() != 0) return;
    const std::int64_t to = std::int64_t{row} * params.taken;
    SLUICE_UNROLL
    for (int rank = 0; rank < most_taken; ++rank) {
      if (rank >= params.taken) break;
      params.chosen[to + rank] = chosen[rank];
      params.shares[to + rank] = weights[rank] / total;
    }
  }
};

} // namespace sluice::kernels

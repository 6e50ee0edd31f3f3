// SPDX-License-Identifier: Apache-2.0
// Place: computes each row's slot in the order of the experts.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/cta.hpp"

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
/// the whole list (256 KiB for 8192 rows of 8 experts, which stays in the L2 cache), and no block waits for another.
template <PlaceConfig config = PlaceConfig{}>
struct Place {
  using Params = PlaceParams;
  static constexpr int threads = 256, ctas_per_sm = 4;

  struct Shared {
    ScanRoom<std::uint64_t, threads> room;
    std::uint64_t total;
  };

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.assignments >= 0 && params.experts > 0, "assignments to experts");
    return {params.experts, 1};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    const int expert = cta.block_x();
    // Each thread has a contiguous run, so that a scan over threads is a scan over the list.
    const int per_thread = pieces(params.assignments, threads);
    const int first = smaller(cta.thread() * per_thread, params.assignments);
    const int last = smaller(first + per_thread, params.assignments);
    std::uint64_t lower = 0, mine = 0;
    for (int i = first; i < last; ++i) {
      lower += params.chosen[i] < expert ? 1 : 0;
      mine += params.chosen[i] == expert ? 1 : 0;
    }
    const std::uint64_t both = cta.inclusive_scan(lower << 32 | mine, shared.room);
    if (cta.thread() == threads - 1) shared.total = both;
    cta.sync();
    const int begin = static_cast<int>(shared.total >> 32);
    int slot = begin + static_cast<int>((both & 0xffffffffU) - mine);
    for (int i = first; i < last; ++i)
      if (params.chosen[i] == expert) params.slots[i] = slot++;
    if (cta.thread() != 0) return;
    params.offsets[expert] = begin;
    if (expert == params.experts - 1)
      params.offsets[params.experts] = begin + static_cast<int>(shared.total & 0xffffffffU);
  }

 private:
  SLUICE_DEVICE static int smaller(int a, int b) { return a < b ? a : b; }
};

} // namespace sluice::kernels

// SPDX-License-Identifier: Apache-2.0
// MeetInTheMiddle: computes the beginning of a found prefix while its end is loaded, so that both take equally long.
#pragma once

#include "sluice/policy/caching/caching.hpp"
#include "sluice/policy/caching/if_faster.hpp"

#include <cstdint>

namespace sluice {

/// `Base`, which loads only the end of a found prefix, and computes its beginning meanwhile: the cut of Cake
/// (arXiv:2410.03065) and KVPR (arXiv:2411.17089), at which the planner's link and compute times are equal. Attention
/// makes the beginning the cheapest part to compute.
template <Caches Base>
struct MeetInTheMiddle : Base {
  static constexpr bool loads_beside = true;

  template <class Cost>
  Reuse reuse(const View& view, const RequestRow& row, const FoundPrefix& found, const Cost& cost) const {
    Reuse reuse = Base::reuse(view, row, found, cost);
    const std::int64_t block = view.limits.block_tokens.count();
    // The more is computed, the longer that takes, and the shorter the load: the last cut at which it is not longer.
    std::int64_t low = 0, high = reuse.tokens.count() / block;
    while (low < high) {
      const std::int64_t middle = low + (high - low + 1) / 2;
      const Tokens computed{middle * block};
      if (compute_time_of(view, cost, computed, found.device) <= load_time(view, cost, reuse.tokens - computed))
        low = middle;
      else
        high = middle - 1;
    }
    reuse.mode = LoadMode::beside;
    reuse.skipped = Tokens{low * block};
    reuse.tokens -= reuse.skipped;
    return reuse;
  }
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// IfFaster: loads KV only where the planner predicts that this takes less time than to compute it.
#pragma once

#include "sluice/policy/caching/caching.hpp"
#include "sluice/policy/caching/load_time.hpp"

#include <algorithm>

namespace sluice {

/// `Base`, which loads only if the predicted time is less than that of computing the same tokens at their place. A load
/// takes as long as the slower of the link and the first tier's channel; a fetch from lower tiers comes before it. If
/// the fetch takes too long, the first tier's part may still be loaded. Over the link alone that is the case above B*,
/// the bytes of KV per token times the prompt tokens per second (docs/tiers.md); vLLM's proposal for adaptive
/// offloading (vllm#35343) compares the same two times.
template <Caches Base>
struct IfFaster : Base {
  template <class Cost>
  Reuse reuse(const View& view, const RequestRow& row, const FoundPrefix& found, const Cost& cost) const {
    Reuse reuse = Base::reuse(view, row, found, cost);
    // Fetched tokens cross the link too. A fetch that a load does not follow would be waited for in vain.
    const auto pays = [&](Tokens loaded, Seconds fetch) {
      const Seconds load = std::max(load_time(view, cost, loaded), found.below_time);
      return fetch + load < compute_time_of(view, cost, loaded, found.device);
    };
    if (reuse.fetched.count() > 0 && !pays(reuse.tokens + reuse.fetched, found.lower_time)) reuse.fetched = Tokens{0};
    if (reuse.fetched.count() == 0 && !pays(reuse.tokens, Seconds{0})) reuse.tokens = Tokens{0};
    return reuse;
  }
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// IfFaster: loads KV only where the planner predicts that this takes less time than to compute it.
#pragma once

#include "sluice/policy/caching/caching.hpp"
#include "sluice/policy/caching/load_time.hpp"

namespace sluice {

/// `Base`, which loads only if the predicted time on the link is less than the predicted time of computing the same
/// tokens at their place. That is the case above B*, the bytes of KV per token times the prompt tokens per second
/// (docs/tiers.md); vLLM's proposal for adaptive offloading (vllm#35343) compares the same two times.
template <Caches Base>
struct IfFaster : Base {
  template <class Cost>
  Reuse reuse(const View& view, const RequestRow& row, const FoundPrefix& found, const Cost& cost) const {
    Reuse reuse = Base::reuse(view, row, found, cost);
    // Fetched tokens cross the link too. A fetch that a load does not follow would be waited for in vain.
    const Tokens loaded = reuse.tokens + reuse.fetched;
    if (!(load_time(view, cost, loaded) < compute_time_of(view, cost, loaded, found.device)))
      reuse.tokens = reuse.fetched = Tokens{0};
    return reuse;
  }
};

} // namespace sluice

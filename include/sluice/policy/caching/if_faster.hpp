// SPDX-License-Identifier: Apache-2.0
// IfFaster: loads KV only where the planner predicts that this takes less time than to compute it.
#pragma once

#include "sluice/policy/caching/caching.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <array>

namespace sluice {

// load_time: what the planner predicts for loading KV from host memory, and for computing it instead.

/// The time on an idle link of the blocks of `tokens` tokens, of all layers.
template <class Cost>
[[nodiscard]] Seconds load_time(const View& view, const Cost& cost, Tokens tokens) {
  const double blocks = static_cast<double>(blocks_for(tokens, view.limits.block_tokens).count()) *
                        static_cast<double>(view.geometry.layers);
  return Seconds{blocks / block_link(cost.link(), view.geometry).blocks_per_s};
}

/// The time of an iteration that computes `tokens` tokens behind `before` others and nothing else.
template <class Cost>
[[nodiscard]] Seconds compute_time_of(const View& view, const Cost& cost, Tokens tokens, Tokens before) {
  if (tokens.count() == 0) return Seconds{0};
  const std::array chunk{ChunkWork{tokens, before}};
  Work work;
  work.chunks = chunk;
  return compute_time(cost, work, view.geometry.layers);
}

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

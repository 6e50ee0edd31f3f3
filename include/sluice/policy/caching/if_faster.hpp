// SPDX-License-Identifier: Apache-2.0
// IfFaster: loads KV only where the planner predicts that this takes less time than to compute it.
#pragma once

#include "sluice/policy/caching/caching.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/transfer/block_link.hpp"

#include <array>
#include <span>

namespace sluice {

/// `Base`, which loads only if the predicted time on the link is less than the predicted time of computing the same
/// tokens at their place. That is the case above B*, the bytes of KV per token times the prompt tokens per second
/// (docs/tiers.md); vLLM's proposal for adaptive offloading (vllm#35343) compares the same two times.
template <Caches Base>
struct IfFaster : Base {
  template <class Cost>
  Reuse reuse(const View& view, const RequestRow& row, const FoundPrefix& found, const Cost& cost) const {
    const Reuse reuse = Base::reuse(view, row, found, cost);
    if (reuse.tokens.count() == 0) return reuse;
    const std::array chunk{ChunkWork{reuse.tokens, found.device}};
    Work work;
    work.chunks = chunk;
    const double computed_s = compute_time(cost, work, view.geometry.layers).count();
    const BlockLink link = block_link(cost.link(), view.geometry);
    const double blocks = static_cast<double>(blocks_for(reuse.tokens, view.limits.block_tokens).count()) *
                          static_cast<double>(view.geometry.layers);
    return blocks / link.blocks_per_s < computed_s ? reuse : Reuse{Tokens{0}, reuse.layerwise};
  }
};

} // namespace sluice

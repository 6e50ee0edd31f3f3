// SPDX-License-Identifier: Apache-2.0
// load_time: what the planner predicts for loading KV from host memory, and for computing it instead.
#pragma once

#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/transfer/block_link.hpp"
#include "sluice/state/view/view.hpp"

#include <array>

namespace sluice {

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

} // namespace sluice

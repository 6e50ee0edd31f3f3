// SPDX-License-Identifier: Apache-2.0
// HiddenStates: some layers' hidden states are saved on the host as they are computed; a preempted request is made of
// them again, and of K and V of the other layers (HCache).
#pragma once

#include "sluice/cost/work.hpp"
#include "sluice/retention/retention.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice {

/// The number of `layers` of which to keep hidden states, so that projecting K and V from them and fetching the rest
/// end together: the least max(n projected_s, n states_s + (layers - n) kv_s), the fewest of equals.
[[nodiscard]] constexpr int hidden_layer_count(int layers, double projected_s, double states_s, double kv_s) {
  int best = 0;
  double least_s = layers * kv_s;
  for (int count = 1; count <= layers; ++count) {
    const double both_s = std::max(count * projected_s, count * states_s + (layers - count) * kv_s);
    if (both_s >= least_s) continue;
    best = count;
    least_s = both_s;
  }
  return best;
}

/// HCache (EuroSys 2025), as eLLM compares with it (section 6.1): K and V of a returning request are in some layers
/// projected from hidden states while those of the others are fetched, split so that both end together. The two kinds
/// of layers alternate, so that neither waits for the other.
///
/// A request's hidden states are saved while it runs, by the iteration that computes them: nothing has them afterwards.
/// When it is preempted they are on the host already, and K and V of the other layers move there. What is saved takes
/// host memory in any case, and the way out of the link while prompts are computed, whether the request is preempted or
/// not; where KV needs the room it is given up, and the request is then moved whole, as by MoveToHost.
///
/// Where hidden states are larger than K and V (grouped queries) and projecting is expensive, K and V of every layer
/// are kept: the policy is then MoveToHost, returned layer by layer.
struct HiddenStates {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = true;
  static constexpr bool copies_ahead = false;

  Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::hidden; }
  Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::host; }

  /// The layers for this request alone, which decodes one token meanwhile, at the length that it joins with: a
  /// returning request is longer, but both times are nearly proportional to its tokens, and their ratio is not its
  /// length's.
  template <class Cost>
  LayerSet hidden_layers(const View& view, const RequestRow& row, const Cost& cost) const {
    const Geometry& geometry = view.geometry;
    Work work;
    work.decodes = work.samples = 1;
    work.decode_context = row.context() + Tokens{1};
    const Seconds plain = cost.step(work).layer;
    work.rebuilt.projected = row.context();
    const Seconds projected = cost.step(work).layer - plain;
    const LinkCost link = cost.link();
    const std::int64_t blocks = blocks_for(row.context(), view.limits.block_tokens).count();
    const auto crosses = [&](Bytes block) { return (block * blocks / link.rate + link.per_layer).count(); };
    const int count = hidden_layer_count(geometry.layers, projected.count(), crosses(geometry.layer_hidden_bytes),
                                         crosses(geometry.layer_block_bytes));
    LayerSet chosen;
    for (int i = 0; i < count; ++i) chosen.insert(i * geometry.layers / count);
    return chosen;
  }
};

static_assert(explain<HiddenStates>());

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// HiddenStates: saves some layers' hidden states on the host as they are computed; a preempted request is restored from
// them and from K and V of the other layers (HCache).
#pragma once

#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/retention/retention.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice {

/// The number of `layers` whose hidden states to keep, so that projecting K and V from them ends together with fetching
/// the others: the n that minimizes max(n projected_s, n states_s + (layers - n) kv_s), the smallest if several do.
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

/// HCache (EuroSys 2025), as eLLM compares with it (section 6.1). When a request returns, some layers' K and V are
/// projected from hidden states while those of the others are fetched, split so that both end together. The two kinds
/// of layers alternate, so that neither waits for the other.
///
/// The iteration that computes hidden states also saves them, since they do not exist afterwards. When the request is
/// preempted they are already on the host, and only K and V of the other layers move. Saved states take host memory,
/// and outbound link time while prompts are computed, even if the request is never preempted. If KV needs the room they
/// are given up, and the request then moves whole, as with MoveToHost.
///
/// If hidden states are larger than K and V (grouped queries) and projecting is expensive, K and V of every layer are
/// kept: the policy is then MoveToHost with a layer-by-layer return.
struct HiddenStates {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = true;
  static constexpr bool copies_ahead = false;

  Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::hidden; }
  Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::host; }

  /// The layers for this request alone, while it decodes one token, at the length with which it joins. A returning
  /// request is longer, but both times are nearly proportional to its tokens, so their ratio hardly depends on the
  /// length.
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

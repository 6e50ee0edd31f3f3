// SPDX-License-Identifier: Apache-2.0
// Weights: the concept of the role that says how much device memory the weights give up for KV.
#pragma once

#include "sluice/core/contract.hpp"
#include "sluice/plan/plan.hpp"
#include "sluice/view/view.hpp"

#include <concepts>
#include <vector>

namespace sluice {

/// One level that the weights could take: what it would free, and what would then move in every iteration. A node's
/// coordinator grants one level of each engine.
struct WeightsLevel {
  WeightsPlan plan;
  Bytes moved_per_iteration{0};
};

/// `P` offers levels.
template <class P>
concept OffersLevels = requires(const P& policy, typename P::State& state, const View& view, LayerBlocks demand,
                                std::vector<WeightsLevel>& levels) {
  { policy.offer(view, state, demand, levels) } -> std::same_as<void>;
};

/// How much device memory the weights give up for KV, which layers stream, through how many slots.
///
///  1. `P::role` is `roles::Weights`; `P::State` is default-constructible.
///  2. `offer(view, state, demand, levels)` appends the levels that it would take for a KV demand of `demand` layer
///     blocks, the one it prefers first. None: the weights stay as they are, all resident.
///
/// Not checked, and owed: levels depend on the steady decode, not on the current batch, or they flip between prompts
/// and decodes; a level is never above what the transfer rule can hide within the SLO.
template <class P>
concept Weights = PlaysRole<P, roles::Weights> && HasState<P> && OffersLevels<P>;

template <>
struct Contract<roles::Weights> {
  template <class P>
  static constexpr bool met = Weights<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(HasState<P>, "sluice: this Weights policy needs a nested `State`: write `struct State {};` if it "
                               "remembers nothing");
    if constexpr (HasState<P>) {
      static_assert(OffersLevels<P>, "sluice: this Weights policy needs `void offer(const View&, State&, LayerBlocks "
                                     "demand, std::vector<WeightsLevel>&) const`");
    }
    return true;
  }
};

} // namespace sluice

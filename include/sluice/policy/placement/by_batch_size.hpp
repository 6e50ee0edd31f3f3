// SPDX-License-Identifier: Apache-2.0
// ByBatchSize: one placement for few requests, another for many.
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/placement/grouped_distance.hpp"
#include "sluice/policy/placement/swapped_layers.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// `Few` places up to `few_at_most` requests and `Many` more: distances of their own pay where few requests share the
/// device, and cost planning time everywhere. A running request that is left alone belongs to `Few`, whoever joins it.
template <class Few = GroupedDistance, class Many = BasicSwappedLayers<SwappedOut::fresh>>
struct BasicByBatchSize {
  using role = roles::Placement;
  static constexpr bool places_layers = Few::places_layers || Many::places_layers;
  static constexpr bool unequal_layers = PlacesUnequalLayers<Few> && PlacesUnequalLayers<Many>;
  static constexpr bool knows_lengths = KnowsLengths<Few> || KnowsLengths<Many>;
  template <class Transfer>
  struct State {
    typename Few::template State<Transfer> few;
    typename Many::template State<Transfer> many;
  };

  Few few = exact();
  Many many{};
  std::int64_t few_at_most = 8;
  static constexpr auto parts = NumberedParts{&BasicByBatchSize::few, &BasicByBatchSize::many};
  static constexpr auto numbers = Numbers{
      "ByBatchSize", Number{"few_at_most", &BasicByBatchSize::few_at_most, 0, 1e6, "requests that count as few"}};

  /// `Few` places a request alone.
  [[nodiscard]] constexpr Holding least(int layers) const { return few.least(layers); }
  [[nodiscard]] constexpr Holding least(int layers, int on_host) const requires StatesLeastWithinHost<Few> {
    return few.least(layers, on_host);
  }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    const bool is_many = task.claims.size() > static_cast<std::size_t>(few_at_most) && task.required > 1;
    return is_many ? many.solve(task, state.many, plan) : few.solve(task, state.few, plan);
  }

 private:
  /// An exact search here accepts no plan that misses a deadline, and neither does SwappedLayers: others decide whether
  /// a request waits instead.
  static constexpr Few exact() {
    Few few{};
    if constexpr (requires { few.options.alpha; }) few.options.alpha = 0;
    return few;
  }
};

using ByBatchSize = BasicByBatchSize<>;

static_assert(Placement<ByBatchSize>);

} // namespace sluice

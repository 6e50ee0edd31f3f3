// SPDX-License-Identifier: Apache-2.0
// Replan: the concept of the role that says when to plan again, and how long a plan must hold.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/state/view/view.hpp"

#include <concepts>
#include <cstdint>

namespace sluice {

/// `P` says when to plan.
template <class P>
concept SaysWhenDue = requires(const P& policy, const typename P::State& state, const View& view,
                               std::uint64_t candidates) {
  { policy.due(view, state, candidates) } -> std::same_as<bool>;
};

/// `P` says how long a plan must hold.
template <class P>
concept SaysWindow = requires(const P& policy) {
  { policy.window() } -> std::same_as<Window>;
};

/// `P` compares what was predicted with what happened.
template <class P>
concept WatchesProfile = requires(const P& policy, typename P::State& state, Seconds predicted, Seconds measured) {
  { policy.observe(state, predicted, measured) } -> std::same_as<void>;
  { policy.planned(state) } -> std::same_as<void>;
};

/// When to plan again. (The engine also plans if a plan no longer fits or does not cover a required claim.)
///
///  1. `P::role` is `roles::Replan`; `P::State` is default-constructible.
///  2. `due(view, state, candidates)`: whether to plan now. `candidates` is the key of all requests considered, the
///     rejected ones too: otherwise a request that queues in vain would cause a plan in every step. `view.plan` is the
///     plan in force.
///  3. `window()`: for how many iterations a new plan must hold.
///  4. `observe(state, predicted, measured)` after each predicted iteration; `planned(state)` after each new plan.
template <class P>
concept Replan = PlaysRole<P, roles::Replan> && HasState<P> && SaysWhenDue<P> && SaysWindow<P> && WatchesProfile<P>;

template <>
struct Contract<roles::Replan> {
  template <class P>
  static constexpr bool met = Replan<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(HasState<P>, "sluice: this Replan policy needs a nested `State`: write `struct State {};` if it "
                               "remembers nothing");
    if constexpr (HasState<P>) {
      static_assert(SaysWhenDue<P>, "sluice: this Replan policy needs `bool due(const View&, const State&, "
                                    "std::uint64_t candidates) const`");
      static_assert(WatchesProfile<P>, "sluice: this Replan policy needs `void observe(State&, Seconds predicted, "
                                       "Seconds measured) const` and `void planned(State&) const`");
    }
    static_assert(SaysWindow<P>, "sluice: this Replan policy needs `Window window() const`");
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Replan policies in one engine: keep one of them");
    return true;
  }
};

} // namespace sluice

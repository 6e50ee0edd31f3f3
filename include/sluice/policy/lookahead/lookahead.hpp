// SPDX-License-Identifier: Apache-2.0
// Lookahead: the concept of the role that says whether a decision is made in its step or one step ahead.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/core/units.hpp"

#include <concepts>
#include <cstdint>

namespace sluice {

/// `P` says whether it decides while an iteration runs.
template <class P>
concept StatesAhead = requires {
  { P::ahead } -> std::convertible_to<bool>;
};

/// `P` says how long a search takes on the simulated clock.
template <class P>
concept PricesEffort = requires(const P& policy, std::int64_t effort) {
  { policy.planning_time(effort) } -> std::same_as<Seconds>;
};

/// Whether the engine decides between iterations, or one step ahead while an iteration runs.
///
///  1. `P::role` is `roles::Lookahead`.
///  2. `P::ahead`: false decides between two iterations, which wait for the decision. True decides the next iteration
///     from the predicted end of the running one; a late decision is used when it is ready.
///  3. `planning_time(effort)`: how long a plan of that many search nodes takes on the simulated clock.
template <class P>
concept Lookahead = PlaysRole<P, roles::Lookahead> && StatesAhead<P> && PricesEffort<P>;

template <>
struct Contract<roles::Lookahead> {
  template <class P>
  static constexpr bool met = Lookahead<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(StatesAhead<P>,
                  "sluice: this Lookahead policy needs `static constexpr bool ahead = true;` (or false)");
    static_assert(PricesEffort<P>,
                  "sluice: this Lookahead policy needs `Seconds planning_time(std::int64_t effort) const`");
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Lookahead policies in one engine: keep one of them");
    return true;
  }
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Router: the concept of the role that chooses the engine of a request.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/core/units.hpp"
#include "sluice/fleet/report.hpp"

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace sluice {

namespace roles {
struct Router; ///< of a fleet: which of its engines gets a request
} // namespace roles

/// `P` says which facts about engines it reads.
template <class P>
concept SaysWhatItReads = requires {
  requires std::same_as<decltype(P::reads), const RouterReads>;
  typename std::bool_constant<P::reads.load>; // constexpr
};

/// `P` says how old reports may be.
template <class P>
concept SaysHowOld = requires(const P& policy) {
  requires std::convertible_to<decltype(policy.every), Seconds>;
};

/// `P` chooses an engine.
template <class P>
concept ChoosesEngine = requires(const P& policy, typename P::State& state, const FleetView& view,
                                 const RoutedRequest& request) {
  requires std::same_as<decltype(policy.choose(view, request, state)), std::size_t>;
};

/// Which engine of a fleet gets a request.
///
///  1. `P::role` is `roles::Router`; `P::State` is default-constructible.
///  2. `P::reads`, a constant `RouterReads`, says which facts it reads: `{.load = true}`. Others are not gathered.
///  3. `every`, a member in Seconds: engines report so often, so reports are up to that old, plus the iteration that
///     runs then. It is the fleet's window (docs/fleet.md), and must be above 0.
///  4. `choose(view, request, state)` returns the number of an engine in `view.open`. It is called once per request, in
///     order of time.
///
/// Requirements that are not checked: the answer depends on nothing but its arguments (so that every rank of a fleet
/// over MPI routes alike); its memory does not grow with the number of requests. An answer that is not in `view.open`
/// ends the run with an error.
template <class P>
concept Router = PlaysRole<P, roles::Router> && HasState<P> && SaysWhatItReads<P> && SaysHowOld<P> && ChoosesEngine<P>;

template <>
struct Contract<roles::Router> {
  template <class P>
  static constexpr bool met = Router<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(HasState<P>, "sluice: this Router needs a nested `State`: write `struct State {};` if it remembers "
                               "nothing");
    static_assert(SaysWhatItReads<P>, "sluice: this Router needs `static constexpr RouterReads reads{.load = true};` "
                                      "with what it reads, or `reads{}` if it reads nothing");
    static_assert(SaysHowOld<P>, "sluice: this Router needs `Seconds every{0.1};`: how often engines report to it");
    if constexpr (HasState<P>) {
      static_assert(ChoosesEngine<P>, "sluice: this Router needs `std::size_t choose(const FleetView&, const "
                                      "RoutedRequest&, State&) const`, the number of an engine of `view.open`");
    }
    return true;
  }
};

} // namespace sluice

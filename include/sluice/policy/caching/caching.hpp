// SPDX-License-Identifier: Apache-2.0
// Caching: the concept of the role that says which KV outlives its request below the device, and how it comes back.
#pragma once

#include "sluice/core/contract.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/state/view/view.hpp"

#include <concepts>
#include <type_traits>

namespace sluice {

/// What a request that would join finds of its context.
struct FoundPrefix {
  Tokens device{0}; ///< whose KV is on the device
  Tokens below{0};  ///< whose KV only the tier has, directly after those
};

/// What a request loads of the tokens that only the tier has.
struct Reuse {
  Tokens tokens{0};      ///< how many, from the first on, in whole blocks; the rest is computed. 0: none
  bool layerwise = true; ///< each layer waits for its own blocks; otherwise the first layer waits for all of them

  friend constexpr bool operator==(const Reuse&, const Reuse&) = default;
};

/// `P` says whether it ever caches anything.
template <class P>
concept StatesCaching = requires {
  typename std::bool_constant<P::caches>;
};
template <class P>
concept Caches = StatesCaching<P> && bool(P::caches);

/// `P` says whether an iteration waits for what it writes.
template <class P>
concept StatesWaiting = requires {
  typename std::bool_constant<P::waits_for_writes>;
};

/// False for policies that cache nothing.
template <class P>
inline constexpr bool waits_for_writes = false;
template <StatesWaiting P>
inline constexpr bool waits_for_writes<P> = P::waits_for_writes;

/// `P` says how much of a request the tier gets.
template <class P>
concept HasWrite = requires(const P& policy, const View& view, const RequestRow& row) {
  requires std::same_as<decltype(policy.write(view, row)), Tokens>;
};
template <class P>
concept NamesWrite = requires(P& policy, const View& view, const RequestRow& row) {
  policy.write(view, row);
};

/// `P` says what is loaded.
template <class P>
concept HasReuse = requires(const P& policy, const View& view, const RequestRow& row, const FoundPrefix& found,
                            const CostArchetype& cost) {
  requires std::same_as<decltype(policy.reuse(view, row, found, cost)), Reuse>;
};
template <class P>
concept NamesReuse = requires(P& policy, const View& view, const RequestRow& row, const FoundPrefix& found,
                              const CostArchetype& cost) {
  policy.reuse(view, row, found, cost);
};

/// `P` says what a request's blocks are worth in the tier.
template <class P>
concept HasWorth = requires(const P& policy, const View& view, const RequestRow& row) {
  requires std::same_as<decltype(policy.worth(view, row)), double>;
};

/// Which KV outlives its request in the tier below the device (host memory), and what of it comes back.
///
///  1. `P::role` is `roles::Caching`.
///  2. `P::caches`: false caches nothing, and the engine has no tier. The following are then absent.
///  3. `P::waits_for_writes`: whether an iteration ends only when its writes have crossed the link. Otherwise they
///     cross while the link is idle, and a block can be found when it has arrived.
///  4. `write(view, row)`: how many of the oldest tokens of the request the tier should have, asked after each of its
///     iterations; the engine writes the full blocks of those with KV that the tier does not have.
///  5. `reuse(view, row, found, cost)`: what a request loads if it joins now, asked in every decision until it joins.
///     The answer depends on nothing but the arguments. A second request that would load the same blocks in the same
///     iteration waits for the next one, and finds them on the device: one load serves all.
///  6. `worth(view, row)`: of the request's blocks when they are stored, for a tier with `Replacement::least_worth`.
///
/// Not checked: `write` should not shrink. The device's own blocks are Retention's (`finds_released`), which an engine
/// with a tier needs.
template <class P>
concept Caching = PlaysRole<P, roles::Caching> && StatesCaching<P> &&
    (Caches<P> ? HasWrite<P>&& HasReuse<P>&& HasWorth<P>&& StatesWaiting<P> : !NamesWrite<P> && !NamesReuse<P>);

template <>
struct Contract<roles::Caching> {
  template <class P>
  static constexpr bool met = Caching<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(StatesCaching<P>, "sluice: this Caching policy needs `static constexpr bool caches = true;` (or "
                                    "false, and no hooks)");
    if constexpr (Caches<P>) {
      static_assert(StatesWaiting<P>,
                    "sluice: this Caching policy needs `static constexpr bool waits_for_writes = false;` (or true)");
      static_assert(HasWrite<P>,
                    "sluice: this Caching policy needs `Tokens write(const View&, const RequestRow&) const`");
      static_assert(HasReuse<P>,
                    "sluice: this Caching policy needs `template <class Cost> Reuse reuse(const View&, const "
                    "RequestRow&, const FoundPrefix&, const Cost&) const`");
      static_assert(HasWorth<P>,
                    "sluice: this Caching policy needs `double worth(const View&, const RequestRow&) const`");
    } else if constexpr (StatesCaching<P>) {
      static_assert(!NamesWrite<P> && !NamesReuse<P>,
                    "sluice: this Caching policy has `write` or `reuse`, but says caches = false: the engine would "
                    "never call them. Say true, or leave the hooks out");
    }
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Caching policies in one engine: keep one of them");
    return true;
  }
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Relief: the concept of the role that chooses which request is preempted when no plan fits, and which may return.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <concepts>
#include <cstddef>
#include <span>

namespace sluice {

/// What happens to a victim.
enum class Parting : std::uint8_t {
  preempt, ///< it stops running and may return; Retention says what remains of its KV
  refuse,  ///< it ends unserved, with the reason
};

/// `P` picks a victim.
template <class P>
concept ChoosesVictim = requires(const P& policy, typename P::State& state, const View& view,
                                 std::span<const Claim> candidates) {
  { policy.choose(view, state, candidates) } -> std::same_as<std::size_t>;
};

/// `P` says which preempted requests may return.
template <class P>
concept GatesReturn = requires(const P& policy, const View& view, const RequestRow& row) {
  { policy.may_return(view, row) } -> std::same_as<bool>;
};

/// `P` says what happens to its victims.
template <class P>
concept StatesParting = requires {
  { P::parting } -> std::convertible_to<Parting>;
};

/// Which request is preempted when no plan fits, and which preempted requests may return.
///
///  1. `P::role` is `roles::Relief`; `P::State` is default-constructible.
///  2. `choose(view, state, candidates)` returns the index of the victim among the candidates (never empty).
///  3. `may_return(view, row)`: whether a preempted request may be proposed again.
///  4. `P::parting` says whether the victim is preempted or refused.
///
/// A requirement that is not checked: once nothing else runs, `may_return` becomes true for every preempted request
/// (otherwise it starves).
template <class P>
concept Relief = PlaysRole<P, roles::Relief> && HasState<P> && ChoosesVictim<P> && GatesReturn<P> && StatesParting<P>;

template <>
struct Contract<roles::Relief> {
  template <class P>
  static constexpr bool met = Relief<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(HasState<P>, "sluice: this Relief policy needs a nested `State`: write `struct State {};` if it "
                               "remembers nothing");
    if constexpr (HasState<P>) {
      static_assert(ChoosesVictim<P>, "sluice: this Relief policy needs `std::size_t choose(const View&, State&, "
                                      "std::span<const Claim>) const`, the index of the victim");
    }
    static_assert(GatesReturn<P>,
                  "sluice: this Relief policy needs `bool may_return(const View&, const RequestRow&) const`");
    static_assert(StatesParting<P>, "sluice: this Relief policy needs `static constexpr Parting parting = "
                                    "Parting::preempt;` (or `Parting::refuse`)");
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(
        Once,
        "sluice: two Relief policies in one engine: keep one of them (does a bundle such as PauseResume bring one?)");
    return true;
  }
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Contract: a role's checks of a policy, with one sentence for each missing requirement.
#pragma once

#include "sluice/core/role.hpp"

#include <concepts>
#include <type_traits>

namespace sluice {

/// One specialisation per role, next to the role's concept:
///
///     template <> struct Contract<roles::Delivery> {
///       template <class P> static constexpr bool met = Delivery<P>;
///       template <class P> static consteval auto explain() { static_assert(…, "…"); …; return true; }
///       template <bool Once> static consteval auto explain_twice() { static_assert(Once, "…"); return true; }
///     };
///
/// `met` is the concept's answer and always compiles. `explain` is instantiated only for a rejected policy; it has one
/// static_assert per named requirement, so each missing requirement gives one sentence. `explain_twice` reports that an
/// engine has two policies of the role; Observer's has none, since an engine may have many observers. Rejected: a
/// static_assert in the engine's body. Clang then treats the class as broken, and each later use is another error; g++
/// continues into the body with the wrong policy.
template <class Role>
struct Contract;

/// `P` names its State, which the engine owns. An empty State is required too: an optional nested type would silently
/// accept a misspelt one.
template <class P>
concept HasState = requires {
  typename P::State;
}
&&std::default_initializable<typename P::State>;

/// A constant that every model of a role has announces a hook that only some models have; the engine reads the
/// constant. `right`: the hook exists with the right signature. `named`: anything with its name exists. Rejected: an
/// engine that detects the hook, since a misspelt hook would silently be none.
consteval bool hook_as_said(bool said, bool right, bool named) { return said ? right : !named; }

/// Put `static_assert(explain<MyPolicy>());` under a policy to see at its definition which requirements it misses.
template <DeclaresRole P>
consteval auto explain() {
  if constexpr (!Contract<typename P::role>::template met<P>) {
    Contract<typename P::role>::template explain<P>();
  }
  return true;
}

} // namespace sluice

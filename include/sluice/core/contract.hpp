// SPDX-License-Identifier: Apache-2.0
// Contract: how a role says, in one sentence per miss, what a policy lacks.
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
/// `met` answers yes or no from the concept alone and never fails to compile; `explain` is instantiated only for a
/// policy that was rejected, and holds one static_assert per named requirement, so that every miss gives one sentence.
/// `explain_twice` says that an engine has two policies of the role; Observer's has none, as there may be many.
/// Rejected: a static_assert in the engine's body. Clang then treats the class as broken and every later use of it is
/// one more error; g++ goes on into the body with the wrong policy.
template <class Role>
struct Contract;

/// `P` names what it remembers, which the engine owns: required even where it is empty, since an optional nested type
/// would accept a misspelt one in silence.
template <class P>
concept HasState = requires {
  typename P::State;
}
&&std::default_initializable<typename P::State>;

/// A hook that only some models of a role have is announced by a constant that every model has, and the engine goes by
/// the constant: `right` and `named` say whether the hook is there as it should be, and whether anything of its name
/// is. Rejected: an engine that looks whether the hook is there: a misspelt one would be a policy without it, in
/// silence.
consteval bool hook_as_said(bool said, bool right, bool named) { return said ? right : !named; }

/// Put `static_assert(explain<MyPolicy>());` under a policy to see at its definition what it lacks.
template <DeclaresRole P>
consteval auto explain() {
  if constexpr (!Contract<typename P::role>::template met<P>) {
    Contract<typename P::role>::template explain<P>();
  }
  return true;
}

} // namespace sluice

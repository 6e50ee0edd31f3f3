// SPDX-License-Identifier: Apache-2.0
// Roles: the questions that a policy can answer, how a policy declares its role, and how a role checks it.
#pragma once

#include <concepts>
#include <type_traits>

namespace sluice {

/// A list of types. A bundle is a policy of several roles: a plain type that names its parts,
/// `using parts = Parts<A, B>;`.
template <class... Policies>
struct Parts {};

/// One empty type per role, declared by its line in this list. A policy declares `using role = roles::Placement;`.
namespace roles {

/// An engine has one policy for each of these roles, written in this order. This is the only list of them: composition,
/// its checks, its sentences and its names use it. A new line is a new role, if the folder of that name has
///
///  - the concept and the `Contract` with its sentences, in its first header;
///  - the `Default`, next to the model that it names, which engine/defaults.hpp includes.
///
/// A list cannot generate names: engine/config.hpp binds `E::cost_type` and `config.cost` to their roles.
using OnePerEngine = Parts<struct Admission, ///< which requests are scheduled, in which order; which leave
                           struct Placement, ///< where each layer's KV lives, or infeasible, and why
                           struct Weights,   ///< how much device memory the weights give up for KV
                           struct Cost,      ///< how long things take, as the planner predicts
                           struct Transfer,  ///< when a transfer may start, and which gets the link
                           struct Replan,    ///< when to plan again, and how long a plan has to hold
                           struct Relief,    ///< which request is preempted when no plan fits, and which may return
                           struct Retention, ///< what remains of the KV of a request that does not run
                           struct Caching,  ///< which KV outlives its request below the device, and what is loaded back
                           struct Delivery, ///< when a generated token reaches the user
                           struct Lookahead, ///< decide between iterations, or one step ahead while one runs
                           struct Layout,    ///< how many layers a unit of KV memory spans
                           struct Backend    ///< runs an iteration, and keeps the time
                           >;

/// The role that observes events; an engine may have any number of observers.
struct Observer;

} // namespace roles

/// `type` is the model that an engine uses if it names none for the role. Specialised next to that model.
template <class Role>
struct Default;

/// `P` declares its role.
template <class P>
concept DeclaresRole = requires {
  typename P::role;
};

/// `P` declares role `R`.
template <class P, class R>
concept PlaysRole = DeclaresRole<P> && std::same_as<typename P::role, R>;

/// `P` is a bundle of policies.
template <class P>
concept Bundle = requires {
  typename P::parts;
};

// Contract: a role's checks of a policy, with one sentence for each missing requirement.

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
/// engine has two policies of the role; Observer's has none, since an engine may have many observers. Some contracts
/// have `template <class P> static constexpr const char* equal_layers`: what a policy does that a model whose layers
/// keep different amounts of KV does not allow, a sentence without its end; null: nothing (engine/submit.hpp).
/// Rejected: a static_assert in the engine's body. Clang then treats the class as broken, and each later use is another
/// error; g++ continues into the body with the wrong policy.
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

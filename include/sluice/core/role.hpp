// SPDX-License-Identifier: Apache-2.0
// Roles: the questions that a policy can answer, and how a policy says which one it answers.
#pragma once

#include <concepts>

namespace sluice {

/// A list of types. A bundle is a policy of several roles: a plain type that names its parts,
/// `using parts = Parts<A, B>;`.
template <class... Policies>
struct Parts {};

/// One empty type per role, declared by its line in this list. A policy declares `using role = roles::Placement;`.
namespace roles {

/// The roles of which an engine has one policy each, in the order in which an engine's policies are written. This is
/// the only list of them: composition, its checks, sentences and names go through it. A line more is a role more, once
/// the folder of that name has
///
///  - the concept and the `Contract` with its sentences, in its first header;
///  - the `Default`, next to the model that it names, which engine/defaults.hpp includes.
///
/// What no list can generate is a name: `E::cost_type` and `config.cost` are bound to their roles in engine/config.hpp.
using OnePerEngine = Parts<struct Admission, ///< which requests are proposed, in which order; which leave
                           struct Placement, ///< where each layer's KV lives, or infeasible, and why
                           struct Weights,   ///< how much device memory the weights give up for KV
                           struct Cost,      ///< how long things take, as the planner predicts
                           struct Transfer,  ///< when a transfer may start, and which gets the link
                           struct Replan,    ///< when to plan again, and how long a plan has to hold
                           struct Relief,    ///< which request gives way when no plan fits, and which may return
                           struct Retention, ///< what remains of the KV of a request that does not run
                           struct Delivery,  ///< when a generated token reaches the user
                           struct Lookahead, ///< decide between iterations, or one step ahead while one runs
                           struct Layout,    ///< how many layers a unit of KV memory spans
                           struct Backend    ///< what an iteration does, and what time it is
                           >;

/// The role that is told of what happens, of which an engine has any number.
struct Observer;

} // namespace roles

/// The model of a role that an engine takes where none is named, as `type`. Specialised next to that model.
template <class Role>
struct Default;

/// `P` says which role it plays.
template <class P>
concept DeclaresRole = requires {
  typename P::role;
};

/// `P` says that it plays role `R`.
template <class P, class R>
concept PlaysRole = DeclaresRole<P> && std::same_as<typename P::role, R>;

/// `P` is a bundle of policies.
template <class P>
concept Bundle = requires {
  typename P::parts;
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Roles: the questions that a policy can answer, and how a policy says which one it answers.
#pragma once

#include <concepts>

namespace sluice {

/// One empty type per role. A policy declares `using role = roles::Placement;`. The concept of each role is the first
/// header of the folder of that name, its default model is named in engine/defaults.hpp.
namespace roles {
struct Admission; ///< who is proposed for the next iteration, in which order; who leaves on purpose
struct Placement; ///< where each layer's KV lives, or infeasible, and why
struct Weights;   ///< how much device memory the weights give up for KV
struct Cost;      ///< how long things take, as the planner believes
struct Transfer;  ///< when a transfer may start, and who gets the link
struct Replan;    ///< when to plan again, and how long a plan must hold
struct Relief;    ///< who gives way when no plan fits, and who may come back
struct Retention; ///< what remains of a request that does not run
struct Delivery;  ///< when a generated token reaches the user
struct Lookahead; ///< decide now, or one step ahead beside the running iteration
struct Layout;    ///< how many layers a unit of KV memory spans
struct Backend;   ///< what an iteration does, and what time it is
struct Observer;  ///< who is told
} // namespace roles

/// A bundle is a policy of several roles: a plain type that names its parts, `using parts = Parts<A, B>;`.
template <class... Policies>
struct Parts {};

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

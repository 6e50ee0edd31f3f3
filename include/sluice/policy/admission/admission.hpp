// SPDX-License-Identifier: Apache-2.0
// Admission: the concept of the role that proposes which requests run next, in which order, with how many tokens.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <concepts>
#include <span>
#include <type_traits>

namespace sluice {

/// `P` keeps the queue of the waiting requests.
template <class P>
concept KeepsQueue = requires(const P& policy, typename P::State& state, const RequestRow& row, Slot slot) {
  { policy.enter(state, slot, row) } -> std::same_as<void>;
  { policy.leave(state, slot, row) } -> std::same_as<void>;
};

/// `P` proposes scheduled requests (claims) from the view alone.
template <class P>
concept ProposesByView = requires(const P& policy, typename P::State& state, const View& view, Proposal& proposal) {
  { policy.propose(view, state, proposal) } -> std::same_as<void>;
};
/// `P` asks what an iteration would take before it proposes.
template <class P>
concept ProposesByEstimate = requires(const P& policy, typename P::State& state, const View& view, Proposal& proposal,
                                      const Estimate& estimate) {
  { policy.propose(view, state, proposal, estimate) } -> std::same_as<void>;
};
/// `P` proposes scheduled requests, one way or the other.
template <class P>
concept ProposesClaims = ProposesByView<P>
!= ProposesByEstimate<P>;

/// `P` may lower the tokens of accepted claims.
template <class P>
concept SettlesClaims = requires(const P& policy, const View& view, std::span<Claim> accepted) {
  { policy.settle(view, accepted) } -> std::same_as<void>;
};

/// `P` says whether its claims can change without an event.
template <class P>
concept StatesSteady = requires {
  { P::steady } -> std::convertible_to<bool>;
};

/// `P` says whether it uses output lengths, which a server does not know.
template <class P>
concept StatesLengths = requires {
  typename std::bool_constant<P::knows_lengths>;
};

/// `P` says that it counts in token blocks that have one size.
template <class P>
concept CountsEqualBlocks = requires {
  requires bool(P::equal_blocks);
};

/// Which requests to schedule in the next iteration, in which order and with how many tokens, as *required* or
/// *optional* claims; which running requests leave, and which waiting ones are refused.
///
///  1. `P::role` is `roles::Admission`; `P::State` is default-constructible and holds the queue.
///  2. `enter(state, slot, row)`: a request arrived. `leave(state, slot, row)`: it no longer waits.
///  3. `propose(view, state, proposal)` fills an empty proposal: required claims first. It never proposes more than
///     `view.limits` allow, and no preempted request unless its row says `may_return`. It may refuse requests that wait
///     for their first iteration (`Proposal::refused`). With a fourth argument, `const Estimate&`, it may ask what an
///     iteration would take.
///  4. `settle(view, accepted)` may lower the tokens of accepted claims, to 0 at the least, and never raises them.
///  5. `P::steady`: true promises that the same batch of decodes is claimed again until a request arrives, ends, is
///     preempted or may return. False if the order changes with time (rotation); the engine then asks in every step.
///  6. `P::knows_lengths`: whether it reads the lengths of answers to come, as an oracle does (KnowsLengths). Such a
///     policy gets no request whose output is a bound, and no server accepts it (engine/with.hpp).
///  7. Optional: `P::equal_blocks`, true if it counts in token blocks that have one size: models whose layers keep
///     different amounts of KV are then refused.
///
/// Every proposal is checked, in every build (engine/core/checks.hpp): a running request that neither has a
/// claim nor leaves, for example, would keep memory that nobody counts. Not checked: the cost of a step does not grow
/// with the number of waiting requests.
template <class P>
concept Admission = PlaysRole<P, roles::Admission> && HasState<P> && KeepsQueue<P> && ProposesClaims<P> &&
    SettlesClaims<P> && StatesSteady<P> && StatesLengths<P>;

template <>
struct Contract<roles::Admission> {
  template <class P>
  static constexpr bool met = Admission<P>;

  template <class P>
  static constexpr const char* equal_layers =
      CountsEqualBlocks<P> ? "its Admission policy counts blocks of one size" : nullptr;

  template <class P>
  static consteval auto explain() {
    static_assert(HasState<P>, "sluice: this Admission policy needs a nested `State` that holds its queue: "
                               "write `struct State { … };` (default-constructible)");
    if constexpr (HasState<P>) {
      static_assert(KeepsQueue<P>, "sluice: this Admission policy needs `void enter(State&, Slot, const RequestRow&) "
                                   "const` and `void leave(State&, Slot, const RequestRow&) const`");
      static_assert(ProposesClaims<P>,
                    "sluice: this Admission policy needs `void propose(const View&, State&, Proposal&) const`, or the "
                    "same with a fourth argument, `const Estimate&`");
      static_assert(SettlesClaims<P>,
                    "sluice: this Admission policy needs `void settle(const View&, std::span<Claim>) const` "
                    "(an empty body keeps every claim as proposed)");
    }
    static_assert(StatesSteady<P>,
                  "sluice: this Admission policy needs `static constexpr bool steady = true;` (false if "
                  "its order moves with time)");
    static_assert(StatesLengths<P>, "sluice: this Admission policy needs `static constexpr bool knows_lengths = "
                                    "false;` (true if it uses the number of tokens that a request will generate)");
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Admission policies in one engine: keep one of them");
    return true;
  }
};

} // namespace sluice

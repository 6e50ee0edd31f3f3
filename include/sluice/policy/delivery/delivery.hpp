// SPDX-License-Identifier: Apache-2.0
// Delivery: the concept of the role that says when a generated token reaches the user.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/state/view/request_row.hpp"

#include <concepts>
#include <limits>

namespace sluice {

/// `next_due` of a request with no token held back.
inline constexpr Seconds never_due{std::numeric_limits<double>::infinity()};

/// An archetype of a sink: takes the request, the number of tokens, and the time.
struct DeliverySinkArchetype {
  void operator()(const RequestRow& row, Tokens count, Seconds when) const;
};

/// `P` is notified of each new token.
template <class P>
concept DeliversGenerated = requires(const P& policy, RequestRow& row, Seconds now, DeliverySinkArchetype sink) {
  { policy.generated(row, now, sink) } -> std::same_as<void>;
};

/// `P` releases tokens that are due.
template <class P>
concept DeliversDue = requires(const P& policy, RequestRow& row, Seconds now, DeliverySinkArchetype sink) {
  { policy.advance(row, now, sink) } -> std::same_as<void>;
};

/// `P` says when its next release is due.
template <class P>
concept SaysNextDue = requires(const P& policy, const RequestRow& row) {
  { policy.next_due(row) } -> std::same_as<Seconds>;
};

/// `P` releases all remaining tokens when a request ends.
template <class P>
concept DeliversRest = requires(const P& policy, RequestRow& row, Seconds now, DeliverySinkArchetype sink) {
  { policy.finish(row, now, sink) } -> std::same_as<void>;
};

/// `P` says whether it holds tokens back at all.
template <class P>
concept StatesDeposit = requires {
  { P::deposits } -> std::convertible_to<bool>;
};

/// When a generated token reaches the user.
///
///  1. `P::role` is `roles::Delivery`. Its state is in the row (`delivered`, `due`), where planner and Relief read it.
///  2. `generated(row, now, sink)`: one more token exists (already counted in `row.generated`).
///  3. `advance(row, now, sink)`: releases the tokens due up to `now`, each at its own time.
///  4. `finish(row, now, sink)`: the last token exists; all remaining tokens are released.
///  5. `next_due(row)`: the earliest time at which `advance` would release a token, `never_due` if none is held back.
///  6. `P::deposits`: false promises that `advance` and a preempted request's deposit never matter.
///
/// Requirements that are not checked: tokens are released in order, none before it exists, all of them by `finish`.
template <class P>
concept Delivery = PlaysRole<P, roles::Delivery> && DeliversGenerated<P> && DeliversDue<P> && SaysNextDue<P> &&
    DeliversRest<P> && StatesDeposit<P>;

template <>
struct Contract<roles::Delivery> {
  template <class P>
  static constexpr bool met = Delivery<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(DeliversGenerated<P>,
                  "sluice: this Delivery policy needs `void generated(RequestRow&, Seconds, auto&& sink) const`");
    static_assert(DeliversDue<P>,
                  "sluice: this Delivery policy needs `void advance(RequestRow&, Seconds, auto&& sink) const`");
    static_assert(SaysNextDue<P>, "sluice: this Delivery policy needs `Seconds next_due(const RequestRow&) const`, "
                                  "`never_due` if it holds no token back");
    static_assert(DeliversRest<P>,
                  "sluice: this Delivery policy needs `void finish(RequestRow&, Seconds, auto&& sink) const`");
    static_assert(StatesDeposit<P>,
                  "sluice: this Delivery policy needs `static constexpr bool deposits = true;` (or false)");
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Delivery policies in one engine: keep one of them");
    return true;
  }
};

} // namespace sluice

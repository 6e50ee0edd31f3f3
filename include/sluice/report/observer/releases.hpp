// SPDX-License-Identifier: Apache-2.0
// Releases: the observer that notifies a listener of the tokens that have just reached their user.
#pragma once

#include "sluice/report/observer/observer.hpp"

#include <concepts>

namespace sluice {

/// Notifies `L` of tokens that Delivery has released: the request's generated tokens `first` (counted from 0) and the
/// `count - 1` after it, due at `when`.
template <class L>
concept ReleaseListener = requires(L& listener, RequestId id, Tokens first, Tokens count, Seconds when) {
  { listener.released(id, first, count, when) } -> std::same_as<void>;
};

/// A server streams its tokens with this observer. A backend that computes real tokens stores them by request
/// (`CpuMachine::generated`). Delivery decides when they are released and uses only counts, so a deposit works for real
/// tokens with any listener. Rejected: notifying the listener when a token is sampled, which is before Delivery's
/// decision.
///
///     using Mine = With<OrbitFlow, Cpu, Releases<Streams>>;
///     config.observers = std::tuple{Releases<Streams>{&streams}};
template <ReleaseListener L>
struct Releases {
  using role = roles::Observer;
  using hears = Events<events::Delivered>;
  static constexpr bool wants_timeline = false;
  struct State {};

  L* to = nullptr; ///< null: no listener

  void on(State&, const events::Delivered& event) const {
    const Tokens count = event.count;
    if (to != nullptr && count.count() > 0) to->released(event.row.id, event.row.delivered - count, count, event.when);
  }
};

} // namespace sluice

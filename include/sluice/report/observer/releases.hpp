// SPDX-License-Identifier: Apache-2.0
// Releases: the observer that tells a listener which tokens of which request have just reached their user.
#pragma once

#include "sluice/report/observer/observer.hpp"

#include <concepts>

namespace sluice {

/// `L` is told of tokens that Delivery has released: the request's generated tokens `first` (counted from 0) and the
/// `count - 1` after it, due at `when`.
template <class L>
concept ReleaseListener = requires(L& listener, RequestId id, Tokens first, Tokens count, Seconds when) {
  { listener.released(id, first, count, when) } -> std::same_as<void>;
};

/// What a server streams from. A backend that computes real tokens keeps them by request (`CpuMachine::generated`), and
/// Delivery decides from counts alone when they go out: so a deposit holds for real tokens, whatever listener prints or
/// sends them. Rejected: telling the listener when a token is sampled, which is before Delivery has seen it.
///
///     using Mine = With<OrbitFlow, Cpu, Releases<Streams>>;
///     config.observers = std::tuple{Releases<Streams>{&streams}};
template <ReleaseListener L>
struct Releases {
  using role = roles::Observer;
  using hears = Events<events::Delivered>;
  static constexpr bool wants_timeline = false;
  struct State {};

  L* to = nullptr; ///< null: nobody listens

  void on(State&, const events::Delivered& event) const {
    const Tokens count = event.count;
    if (to != nullptr && count.count() > 0) to->released(event.row.id, event.row.delivered - count, count, event.when);
  }
};

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// Releases: the observer that tells a listener which tokens of which request have just reached their user.
#pragma once

#include "sluice/observer/observer.hpp"

#include <concepts>
#include <string_view>

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
  static constexpr bool wants_timeline = false;
  struct State {};

  L* to = nullptr; ///< null: nobody listens

  void delivered(State& /*state*/, const RequestRow& row, Tokens count, Seconds when) const {
    if (to != nullptr && count.count() > 0) to->released(row.id, row.delivered - count, count, when);
  }

  void submitted(State& /*state*/, const RequestRow& /*row*/) const {}
  void refused(State& /*state*/, RequestId /*id*/, const RequestSpec& /*spec*/, Seconds /*now*/,
               std::string_view /*reason*/) const {}
  void preempted(State& /*state*/, const RequestRow& /*row*/, Kept /*kept*/, Seconds /*now*/) const {}
  void resumed(State& /*state*/, const RequestRow& /*row*/, Seconds /*now*/) const {}
  void ended(State& /*state*/, const RequestRow& /*row*/, Seconds /*now*/) const {}
  void cancelled(State& /*state*/, const RequestRow& /*row*/, Seconds /*now*/) const {}
  void planned(State& /*state*/, const View& /*view*/, const Plan& /*plan*/, Seconds /*virtual*/,
               Seconds /*wall*/) const {}
  template <class Replay>
  void iterated(State& /*state*/, const IterationRecord& /*record*/, const Replay& /*replay*/) const {}
};

} // namespace sluice

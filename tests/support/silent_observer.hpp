// SPDX-License-Identifier: Apache-2.0
// SilentObserver: an observer that heeds nothing, for those of tests that watch one thing.
#pragma once

#include "sluice/observer/observer.hpp"

#include <string_view>

namespace sluice::testing {

/// What a derived observer does not say itself, says nothing. It has a `State` of its own.
struct SilentObserver {
  using role = roles::Observer;
  static constexpr bool wants_timeline = false;

  template <class State>
  void submitted(State&, const RequestRow&) const {}
  template <class State>
  void refused(State&, RequestId, const RequestSpec&, Seconds, std::string_view) const {}
  template <class State>
  void preempted(State&, const RequestRow&, Kept, Seconds) const {}
  template <class State>
  void resumed(State&, const RequestRow&, Seconds) const {}
  template <class State>
  void ended(State&, const RequestRow&, Seconds) const {}
  template <class State>
  void cancelled(State&, const RequestRow&, Seconds) const {}
  template <class State>
  void delivered(State&, const RequestRow&, Tokens, Seconds) const {}
  template <class State>
  void planned(State&, const View&, const Plan&, Seconds, Seconds) const {}
  template <class State, class Replay>
  void iterated(State&, const IterationRecord&, const Replay&) const {}
};

} // namespace sluice::testing

// SPDX-License-Identifier: Apache-2.0
// AnyObserver: an observer chosen at run time, which forwards every event to an EventListener.
#pragma once

#include "sluice/report/observer/chosen_iteration.hpp"
#include "sluice/report/observer/observer.hpp"

#include <utility>

namespace sluice {

/// Receives every event of an engine of any type.
class EventListener {
 public:
  EventListener() = default;
  EventListener(const EventListener&) = delete;
  EventListener& operator=(const EventListener&) = delete;
  virtual ~EventListener() = default;

  virtual void hear(const AnyEvent& event) = 0;
};

/// Forwards every event. An engine with this observer is compiled once for all listeners. `wants`: whether listeners
/// may replay iterations.
template <bool wants>
struct AnyObserver {
  using role = roles::Observer;
  using hears = AllEvents;
  static constexpr bool wants_timeline = wants;
  struct State {};

  EventListener* listener = nullptr; ///< null: no listener

  void on(State&, const AnyEvent& event) const {
    if (listener != nullptr) listener->hear(event);
  }
};

static_assert(explain<AnyObserver<true>>());

/// Makes a listener from an observer; `state` holds the data that the observer collects.
template <Observer O>
struct ListeningObserver final : EventListener {
  explicit ListeningObserver(O of = {}) : observer(std::move(of)) {}
  void hear(const AnyEvent& event) override { tell(observer, state, event); }

  O observer;
  typename O::State state{};
};

} // namespace sluice

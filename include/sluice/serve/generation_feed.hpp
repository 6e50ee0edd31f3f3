// SPDX-License-Identifier: Apache-2.0
// GenerationFeed: the observer that passes an engine's events to a server; FeedRelay: a listener that passes events on.
#pragma once

#include "sluice/report/observer/any_observer.hpp"

namespace sluice {

/// Passes every event on to `listener`. A server draws no timelines.
using GenerationFeed = AnyObserver<false>;

/// Passes events to a listener that can change. An engine is copied often. Instead of creating observers for each copy,
/// all copies share one relay; its listener is set while one of them is stepped.
class FeedRelay final : public EventListener {
 public:
  /// Null: events are dropped.
  void pass_to(EventListener* listener) { to_ = listener; }

  void hear(const AnyEvent& event) override {
    if (to_ != nullptr) to_->hear(event);
  }

 private:
  EventListener* to_ = nullptr;
};

} // namespace sluice

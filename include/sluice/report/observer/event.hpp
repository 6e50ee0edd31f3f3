// SPDX-License-Identifier: Apache-2.0
// events: everything that an engine reports to its observers. Declare a new event here, as a struct and in AllEvents.
#pragma once

#include "sluice/policy/retention/retention.hpp"
#include "sluice/report/observer/iteration_record.hpp"
#include "sluice/report/observer/miss_causes.hpp"

#include <concepts>
#include <string_view>

namespace sluice {

/// References in an event are valid only during the call.
namespace events {

/// The engine took the request into its queue.
struct Submitted {
  const RequestRow& row;
};
/// The request ends unserved: at submission, or later.
struct Refused {
  RequestId id;
  const RequestSpec& spec;
  Seconds now;
  std::string_view reason;
  bool chosen = false; ///< by Admission (`Proposal::refused`), while it waited; false: the engine cannot serve it
};
struct Preempted {
  const RequestRow& row;
  Kept kept; ///< what remains of its KV
  Seconds now;
};
/// A preempted request runs again.
struct Resumed {
  const RequestRow& row;
  Seconds now;
};
/// A request joins for the first time and does not find everything, or a load brings less than it was to bring. Only
/// from engines with tiers that explain misses (`EngineConfig::explains_misses`).
struct Missed {
  const RequestRow& row;
  MissCauses causes;
};
/// The request has generated all its tokens.
struct Ended {
  const RequestRow& row;
  Seconds now;
};
/// The user cancelled the request. `row` is its last state; undelivered tokens are never delivered.
struct Cancelled {
  const RequestRow& row;
  Seconds now;
};
/// `count` tokens reached the user at `when`; `row.delivered` already includes them. Deliveries of one request are in
/// order of time; deliveries of different requests may not be.
struct Delivered {
  const RequestRow& row;
  Tokens count;
  Seconds when;
};
/// The engine has a new plan.
struct Planned {
  const View& view;
  const Plan& plan;
  Seconds virtual_time; ///< planning time on the engine's clock
  Seconds wall_time;    ///< planning time on the wall clock
};
/// An iteration ended. An observer may call `replay` if its `wants_timeline` is true.
struct Iterated {
  const IterationRecord& record;
  TimelineReplay replay{};
};

} // namespace events

/// A list of event types.
template <class... Es>
struct Events {
  template <class E>
  static constexpr bool contains = (std::same_as<E, Es> || ...);
  /// Returns the place of `E` in the list.
  template <class E>
  static consteval int place() {
    int at = 0;
    (void)((std::same_as<E, Es> || (++at, false)) || ...);
    return at;
  }
};

using AllEvents = Events<events::Submitted, events::Refused, events::Preempted, events::Resumed, events::Missed,
                         events::Ended, events::Cancelled, events::Delivered, events::Planned, events::Iterated>;

/// `E` is one of the events above.
template <class E>
concept Event = AllEvents::contains<E>;

/// An event of any type, by reference, for functions that are not templates. Rejected: std::variant, which copies the
/// event, and whose header is expensive to compile.
class AnyEvent {
 public:
  template <Event E>
  AnyEvent(const E& event) : event_(&event), type_(AllEvents::place<E>()) {} // NOLINT(google-explicit-constructor)

  /// Returns the event, if it is an `E`; otherwise null.
  template <Event E>
  [[nodiscard]] const E* get() const {
    return type_ == AllEvents::place<E>() ? static_cast<const E*>(event_) : nullptr;
  }
  /// Calls `tell(event)` with the typed event, if its type is one of `Es`.
  template <Event... Es, class Tell>
  void visit(Events<Es...>, Tell&& tell) const {
    (void)((type_ == AllEvents::place<Es>() && (tell(*static_cast<const Es*>(event_)), true)) || ...);
  }

 private:
  const void* event_;
  int type_;
};

} // namespace sluice

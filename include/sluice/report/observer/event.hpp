// SPDX-License-Identifier: Apache-2.0
// events: everything that an engine reports to its observers. Declare a new event here, as a struct and in AllEvents.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/policy/retention/retention.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

// MissCauses: why prompt tokens are computed that had been computed before.

/// In tokens, whole blocks. Tokens that no request has had before are no miss.
struct MissCauses {
  Tokens unwritten{0}; ///< no tier got them, and the device has overwritten them
  Tokens evicted{0};   ///< every tier that had them has evicted them
  Tokens late{0};      ///< another request still computed them, or they were on their way
  Tokens cut{0};       ///< a tier had them, but Caching did not load them

  [[nodiscard]] Tokens all() const { return unwritten + evicted + late + cut; }
  MissCauses& operator+=(const MissCauses& other) {
    unwritten += other.unwritten;
    evicted += other.evicted;
    late += other.late;
    cut += other.cut;
    return *this;
  }
};

// IterationRecord: an engine's report on one iteration to its observers, and their access to its timeline.

/// One iteration, after it has run. References are valid only during the call.
struct IterationRecord {
  std::int64_t step = 0;
  Seconds start{0};
  Seconds duration{0};              ///< from start to end, including the wait for the planner
  Seconds stall{0};                 ///< the part in which the compute stream waited for a transfer
  Seconds planning{0};              ///< the part in which it waited for the planner
  std::span<const Claim> batch;     ///< the requests that ran, with their numbers of tokens
  std::span<const RequestRow> rows; ///< by slot, during the iteration; only rows of the batch are valid
  /// The request of each stream that a timeline names; streams beyond the list are weights. In real time a stream is a
  /// slot.
  std::span<const Slot> stream_slots;
  std::int64_t decodes = 0;
  std::int64_t hosted = 0;     ///< the decodes among them that the host attended
  std::int64_t rebuilding = 0; ///< requests of which it rebuilt K and V of some layers
  Tokens tokens{0};            ///< computed, all claims together
  std::int64_t running = 0;    ///< requests that hold device memory as part of the batch
  std::int64_t waiting = 0;
  std::int64_t preempted = 0;
  LayerBlocks device_used{0}; ///< resident, excluding the blocks in flight
  LayerBlocks device_capacity{0};
  LayerBlocks in_flight{0}; ///< device room that transfers could use
  LayerBlocks host_used{0};
  LayerBlocks to_device{0};   ///< fetched just in time, and by the plan's delta
  LayerBlocks to_host{0};     ///< evicted, and written out by prefills
  LayerBlocks from_tier{0};   ///< the part of `to_device` that comes from the tier below the device
  LayerBlocks to_tier{0};     ///< the part of `to_host` that goes to that tier
  Bytes weights{0};           ///< streamed to the device
  bool repeated = false;      ///< no decision was ready, so the last one ran again (OneStepAhead)
  const Plan* plan = nullptr; ///< the plan in force
};

struct TimelineSink; ///< report/observer/chosen_iteration.hpp

/// Evaluates an iteration again, into a timeline. Refers to a function of one engine type, so that observers need not
/// be templates. Valid during the lifetime of the function `evaluate(TimelineSink&)` from which it is made. Observers
/// that want timelines include report/observer/chosen_iteration.hpp.
class TimelineReplay {
 public:
  TimelineReplay() = default; ///< writes nothing, because no observer of the engine wants timelines
  template <class Evaluate>
  explicit TimelineReplay(const Evaluate& evaluate)
      : evaluate_(&evaluate),
        call_([](const void* of, TimelineSink& sink) { (*static_cast<const Evaluate*>(of))(sink); }) {}

  void operator()(TimelineSink&& sink) const {
    if (call_ != nullptr) call_(evaluate_, sink);
  }

 private:
  const void* evaluate_ = nullptr;
  void (*call_)(const void* evaluate, TimelineSink& sink) = nullptr;
};

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

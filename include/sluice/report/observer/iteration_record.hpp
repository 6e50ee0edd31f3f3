// SPDX-License-Identifier: Apache-2.0
// IterationRecord: an engine's report on one iteration to its observers, and their access to its timeline.
#pragma once

#include "sluice/state/plan/plan.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <cstdint>
#include <span>

namespace sluice {

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

struct TimelineSink; ///< report/observer/timeline_sink.hpp

/// Evaluates an iteration again, into a timeline. Refers to a function of one engine type, so that observers need not
/// be templates. Valid during the lifetime of the function `evaluate(TimelineSink&)` from which it is made. Observers
/// that want timelines include report/observer/timeline_sink.hpp.
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

} // namespace sluice

// SPDX-License-Identifier: Apache-2.0
// ClockRecord: all that a run's engine was told of time, so that another engine can be told the same.
#pragma once

#include "sluice/backend/backend.hpp"

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// One thing that took time.
struct ClockEvent {
  enum class Kind : std::uint8_t { start, idle, run };

  Kind kind = Kind::run;
  Seconds now{0};            ///< when it was over
  Seconds asked{0};          ///< idle: until when
  IterationCost cost{};      ///< run: as the backend told it
  double behind_blocks = 0;  ///< run: what it left of a plan's delta (transfer/transfer_scheduler.hpp)
  std::int64_t requests = 0; ///< run: in the batch
  std::int64_t tokens = 0;   ///< run: computed

  /// Whether the engine asked for the same thing; what it took is not compared.
  [[nodiscard]] bool same_question(const ClockEvent& other) const {
    return kind == other.kind && asked == other.asked && requests == other.requests && tokens == other.tokens;
  }
};

inline std::string_view name_of(ClockEvent::Kind kind) {
  switch (kind) {
  case ClockEvent::Kind::start:
    return "start";
  case ClockEvent::Kind::idle:
    return "idle";
  case ClockEvent::Kind::run:
    return "run";
  }
  return "";
}

/// A run's times, in order; the first event is the start. An engine is a function of its configuration, the requests
/// and these: nothing else of a real run is by chance.
///
/// As text it is CSV, one event a line, in numbers that read back as the same doubles (read_clock_record.hpp):
///
///     step,event,now_s,asked_s,duration_s,stall_s,behind_blocks,requests,tokens
///     0,start,0,0,0,0,0,0,0
///     0,idle,1.5,1.5,0,0,0,0,0
///     0,run,1.5625,0,0.0625,0.03125,12,3,40
///
/// `step` is that of the next iteration, or of this one. Rejected: written by an observer, which is told neither of
/// idling nor when an iteration was over but in a sum that rounds.
struct ClockRecord {
  static constexpr std::string_view header =
      "step,event,now_s,asked_s,duration_s,stall_s,behind_blocks,requests,tokens";

  std::vector<ClockEvent> events;

  [[nodiscard]] std::string text() const {
    std::string all = std::string{header} + '\n';
    std::int64_t step = 0;
    for (const ClockEvent& event : events) {
      char line[200];
      std::snprintf(line, sizeof line, "%lld,%s,%.17g,%.17g,%.17g,%.17g,%.17g,%lld,%lld\n",
                    static_cast<long long>(step), name_of(event.kind).data(), event.now.count(), event.asked.count(),
                    event.cost.duration.count(), event.cost.stall.count(), event.behind_blocks,
                    static_cast<long long>(event.requests), static_cast<long long>(event.tokens));
      all += line;
      if (event.kind == ClockEvent::Kind::run) ++step;
    }
    return all;
  }
};

namespace detail {

/// The question that an iteration puts to a clock.
[[nodiscard]] inline ClockEvent run_event(const Iteration& iteration) {
  ClockEvent event;
  event.requests = static_cast<std::int64_t>(iteration.batch.size());
  event.tokens = iteration.work.tokens().count();
  return event;
}

} // namespace detail
} // namespace sluice

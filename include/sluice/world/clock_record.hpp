// SPDX-License-Identifier: Apache-2.0
// ClockRecord: everything that an engine learnt from its backend in a run, so that another engine can be told the same.
#pragma once

#include "sluice/workload/content.hpp"
#include "sluice/world/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// One question that an engine asked its backend, and the answer.
struct ClockEvent {
  enum class Kind : std::uint8_t {
    start,   ///< the first event
    idle,    ///< idled
    wait,    ///< idled until a bell rang or the time was over; the duration asked for is not recorded
    run,     ///< ran an iteration
    ready,   ///< a plan made asynchronously was ready when the engine asked
    late,    ///< it was not ready
    joined,  ///< the engine waited for it
    cancel,  ///< nothing was asked: a request was cancelled
    release, ///< no question either: due tokens were released
    loaded,  ///< the KV that a request waits for was on the device when the engine asked
    loading, ///< it was not
    name,    ///< the engine asked for the keys of a request's blocks, which only a backend that has tokens knows
  };
  /// A RequestOutcome that keeps its reason.
  struct Outcome {
    Slot slot{};
    bool failed = false;
    std::string reason;
    bool recompute = false;
  };

  Kind kind = Kind::run;
  Seconds now{0}; ///< time of the answer
  Seconds asked{
      0}; ///< idle: the time until which the engine wanted to idle; release: the time by which the tokens were due
  IterationCost cost{};         ///< run: as the backend answered
  double background_blocks = 0; ///< run: the remainder of a plan's delta (policy/transfer/transfer_scheduler.hpp)
  std::int64_t requests = 0;    ///< run: in the batch; cancel: submitted before it; name: the request's number
  std::int64_t tokens = 0;      ///< run: computed; name: the blocks asked for
  std::uint64_t batch = 0;      ///< run: a hash of the batch's requests and their tokens
  Slot slot{};                  ///< cancel, loaded, loading: the request's slot
  std::vector<Outcome> outcomes{};
  std::vector<BlockKey> keys{}; ///< name: those that the engine did not have

  /// Whether the engine asked the same question; answers are not compared.
  [[nodiscard]] bool same_question(const ClockEvent& other) const {
    const auto plain = [](Kind one) {
      return one == Kind::late      ? Kind::ready
             : one == Kind::wait    ? Kind::idle
             : one == Kind::loading ? Kind::loaded
                                    : one;
    };
    const bool waits = kind == Kind::wait || other.kind == Kind::wait;
    return plain(kind) == plain(other.kind) && (waits || asked == other.asked) && requests == other.requests &&
           tokens == other.tokens && batch == other.batch && slot == other.slot;
  }
};

inline constexpr const char* to_string(ClockEvent::Kind kind) {
  switch (kind) {
  case ClockEvent::Kind::start:
    return "start";
  case ClockEvent::Kind::idle:
    return "idle";
  case ClockEvent::Kind::wait:
    return "wait";
  case ClockEvent::Kind::run:
    return "run";
  case ClockEvent::Kind::ready:
    return "ready";
  case ClockEvent::Kind::late:
    return "late";
  case ClockEvent::Kind::joined:
    return "joined";
  case ClockEvent::Kind::cancel:
    return "cancel";
  case ClockEvent::Kind::release:
    return "release";
  case ClockEvent::Kind::loaded:
    return "loaded";
  case ClockEvent::Kind::loading:
    return "loading";
  case ClockEvent::Kind::name:
    return "name";
  }
  return "";
}

/// A run's times, in order; the first event is the start. An engine is a function of its configuration, its requests
/// and these times, which include the times of cancellations, and of the names of blocks, which depend on the tokens of
/// prompts and answers: a real run has no other source of chance.
///
/// As text it is CSV, one event per line; numbers read back as the same doubles (read_clock_record.hpp). Requests that
/// ended early or failed in an iteration have lines of their own after it. The last field has the keys of `name`:
///
///     step,event,now_s,asked_s,duration_s,stall_s,link_s,background_blocks,requests,tokens,batch,slot,reason
///     0,start,0,0,0,0,0,0,0,0,0,0,
///     0,idle,1.5,1.5,0,0,0,0,0,0,0,0,
///     0,run,1.5625,0,0.0625,0.03125,0.046875,12,3,40,1311768467463790320,0,
///     1,failed,0,0,0,0,0,0,0,0,0,2,a transfer of its KV to the device failed twice
///     1,cancel,1.5625,0,0,0,0,0,4,0,0,1,
///     1,name,1.5625,0,0,0,0,0,3,2,0,0,91a3c5d7e8f60214 5f
///
/// `step`: the number of iterations before the event. Rejected: a record written by an observer. Observers do not hear
/// of idling, and know the end of an iteration only as a rounded sum.
struct ClockRecord {
  static constexpr std::string_view header =
      "step,event,now_s,asked_s,duration_s,stall_s,link_s,background_blocks,requests,tokens,batch,slot,reason";

  std::vector<ClockEvent> events;

  [[nodiscard]] std::string text() const {
    std::string all = std::string{header} + '\n';
    std::int64_t step = 0;
    for (const ClockEvent& event : events) write(all, event, step);
    return all;
  }
  /// Writes one event's lines, without the header. `step`: the number of iterations before the event; updated.
  static void write(std::string& to, const ClockEvent& event, std::int64_t& step) {
    char line[256];
    std::snprintf(line, sizeof line, "%lld,%s,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g,%lld,%lld,%llu,%lu,",
                  static_cast<long long>(step), to_string(event.kind), event.now.count(), event.asked.count(),
                  event.cost.duration.count(), event.cost.stall.count(), event.cost.link.count(),
                  event.background_blocks, static_cast<long long>(event.requests), static_cast<long long>(event.tokens),
                  static_cast<unsigned long long>(event.batch), static_cast<unsigned long>(index(event.slot)));
    to += line;
    for (const BlockKey& key : event.keys) {
      std::snprintf(line, sizeof line, "%s%llx", &key == event.keys.data() ? "" : " ",
                    static_cast<unsigned long long>(key));
      to += line;
    }
    to += '\n';
    if (event.kind == ClockEvent::Kind::run) ++step;
    for (const ClockEvent::Outcome& outcome : event.outcomes)
      to += std::to_string(step) +
            (outcome.recompute ? ",lost"
             : outcome.failed  ? ",failed"
                               : ",ended") +
            ",0,0,0,0,0,0,0,0,0," + std::to_string(index(outcome.slot)) + ',' + outcome.reason + '\n';
  }
};

namespace detail {

/// The question that an iteration asks a clock.
[[nodiscard]] inline ClockEvent run_event(const Iteration& iteration) {
  ClockEvent event;
  event.requests = static_cast<std::int64_t>(iteration.batch.size());
  event.tokens = iteration.work.tokens().count();
  for (const Claim& claim : iteration.batch)
    for (const std::uint64_t word :
         {std::uint64_t{index(claim.slot)}, static_cast<std::uint64_t>(claim.tokens.count())})
      event.batch =
          (event.batch ^ word) * 0x9e3779b97f4a7c15u + 1; // the order counts, and so does a request without tokens
  return event;
}

[[nodiscard]] inline ClockEvent plain_event(ClockEvent::Kind kind) {
  ClockEvent event;
  event.kind = kind;
  return event;
}

[[nodiscard]] inline ClockEvent cancel_event(Slot slot, std::int64_t submitted) {
  ClockEvent event = plain_event(ClockEvent::Kind::cancel);
  event.slot = slot;
  event.requests = submitted;
  return event;
}

[[nodiscard]] inline ClockEvent loaded_event(Slot slot) {
  ClockEvent event = plain_event(ClockEvent::Kind::loaded);
  event.slot = slot;
  return event;
}

[[nodiscard]] inline ClockEvent name_event(RequestId id, std::size_t count) {
  ClockEvent event = plain_event(ClockEvent::Kind::name);
  event.requests = static_cast<std::int64_t>(index(id));
  event.tokens = static_cast<std::int64_t>(count);
  return event;
}

[[nodiscard]] inline ClockEvent release_event(Seconds until) {
  ClockEvent event = plain_event(ClockEvent::Kind::release);
  event.asked = until;
  return event;
}

[[nodiscard]] inline ClockEvent idle_event(Seconds until) {
  ClockEvent event = plain_event(ClockEvent::Kind::idle);
  event.asked = until;
  return event;
}

} // namespace detail
} // namespace sluice

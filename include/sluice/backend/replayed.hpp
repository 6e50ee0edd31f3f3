// SPDX-License-Identifier: Apache-2.0
// Replayed: the clock of a run that has been, for an engine that is to decide as that run's engine did.
#pragma once

#include "sluice/backend/clock_record.hpp"
#include "sluice/core/expected.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace sluice {

/// Where a replay of a record stands, and whether the engine still does what the recorded one did.
class Replay {
 public:
  explicit Replay(ClockRecord record) : record_(std::move(record)) {
    const bool starts = !record_.events.empty() && record_.events.front().kind == ClockEvent::Kind::start;
    if (starts)
      at_ = 1;
    else
      status_ = Error{ErrorCode::bad_input, "the record", "it does not begin with a start", "a record of a whole run"};
  }

  [[nodiscard]] Seconds start() const { return at_ > 0 ? record_.events.front().now : Seconds{0}; }
  /// What the same question was answered with; null from the first one on that is another, or none more.
  [[nodiscard]] const ClockEvent* next(const ClockEvent& question) {
    if (!status_.ok()) return nullptr;
    if (at_ == record_.events.size()) {
      part("its end", question);
      return nullptr;
    }
    const ClockEvent& event = record_.events[at_];
    if (!event.same_question(question)) {
      part(describe(event), question);
      return nullptr;
    }
    ++at_;
    if (event.kind == ClockEvent::Kind::run) ++step_;
    return &event;
  }
  /// Ok, or where and how the engine parted from the record.
  [[nodiscard]] const Status& status() const { return status_; }
  /// Every event has been replayed.
  [[nodiscard]] bool finished() const { return status_.ok() && at_ == record_.events.size(); }

 private:
  static std::string describe(const ClockEvent& event) {
    if (event.kind == ClockEvent::Kind::idle) return "idling until " + std::to_string(event.asked.count()) + " s";
    return "an iteration of " + std::to_string(event.requests) + " requests and " + std::to_string(event.tokens) +
           " tokens";
  }
  void part(const std::string& recorded, const ClockEvent& question) {
    status_ = Error{ErrorCode::infeasible, "step " + std::to_string(step_), "the engine asks for " + describe(question),
                    "as the record has it, " + recorded};
  }

  ClockRecord record_;
  std::size_t at_ = 0; ///< the next event
  std::int64_t step_ = 0;
  Status status_;
};

/// Takes the times from a record: an engine of the same configuration, with the same requests, makes the same
/// decisions, whatever disturbed the recorded run. `World`, a cost model, says what no clock does: what an iteration
/// leaves on the device for the next (the recorded backend must leave it by the same model), what happened within one
/// for a timeline, and, once the engine has parted from the record (`Replay::status`), how long things take.
template <class World>
class BasicReplayed {
 public:
  using role = roles::Backend;
  using world_type = World;

  /// `replay` outlives this.
  BasicReplayed(Replay& replay, World world) : replay_(&replay), world_(std::move(world)), now_(replay.start()) {}

  [[nodiscard]] Seconds now() const { return now_; }
  void idle_until(Seconds when) {
    if (when <= now_) return;
    ClockEvent question;
    question.kind = ClockEvent::Kind::idle;
    question.asked = when;
    const ClockEvent* const event = replay_->next(question);
    now_ = event != nullptr ? event->now : when;
  }

  template <class Transfer>
  IterationCost run(const Iteration& iteration, typename Transfer::State& state) {
    IterationCost cost = evaluate<Transfer>(iteration, world_, compute_, state);
    const ClockEvent* const event = replay_->next(detail::run_event(iteration));
    if (event != nullptr) {
      cost = event->cost;
      state.behind_blocks = event->behind_blocks;
      now_ = event->now;
    } else {
      now_ += cost.duration;
    }
    return cost;
  }

  template <class Transfer, class Sink>
  void replay(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    evaluate_link<Transfer>(pipeline_of(iteration, world_, compute_), state, sink);
  }

 private:
  Replay* replay_;
  World world_;
  Seconds now_;
  LayerArray compute_{};
};

} // namespace sluice

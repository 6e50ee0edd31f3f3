// SPDX-License-Identifier: Apache-2.0
// Replayed: the clock of a run that has been, for an engine that is to decide as that run's engine did.
#pragma once

#include "sluice/backend/clock_record.hpp"
#include "sluice/core/expected.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// A replay of a record: what time it is there, and whether the engine still asks what the recorded one asked.
class Replay {
 public:
  explicit Replay(ClockRecord record) : record_(std::move(record)) {
    if (!record_.events.empty() && record_.events.front().kind == ClockEvent::Kind::start) {
      now_ = record_.events.front().now;
      at_ = 1;
    } else {
      status_ = Error{ErrorCode::bad_input, "the record", "it does not begin with a start", "a record of a whole run"};
    }
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  [[nodiscard]] Seconds now() const { return now_; }
  /// The answer to `question` in the record, whose time the clock then has; null from the first question on that
  /// differs, or when the record has ended.
  [[nodiscard]] const ClockEvent* next(const ClockEvent& question) {
    if (!status_.ok()) return nullptr;
    if (at_ == record_.events.size() || !record_.events[at_].same_question(question)) {
      status_ =
          Error{ErrorCode::infeasible, "step " + std::to_string(step_), "the engine asks for " + describe(question),
                "as the record has it, " + (at_ == record_.events.size() ? "its end" : describe(record_.events[at_]))};
      return nullptr;
    }
    const ClockEvent& event = record_.events[at_];
    ++at_;
    now_ = event.now;
    if (event.kind == ClockEvent::Kind::run) ++step_;
    return &event;
  }
  /// Does to the engine what the record has next, if a user or a timer did that and not the engine: cancels a request,
  /// hands out tokens. Who replays calls this before anything else, with how many requests it has submitted, until the
  /// answer is false.
  template <class E>
  bool repeat(E& engine, std::int64_t submitted) const {
    const std::size_t before = at_;
    if (!status_.ok() || at_ == record_.events.size()) return false;
    const ClockEvent& event = record_.events[at_];
    if (event.kind == ClockEvent::Kind::release) engine.release_due(event.asked);
    if (event.kind == ClockEvent::Kind::cancel && event.requests == submitted &&
        index(event.slot) < engine.view().rows.size())
      (void)engine.cancel(engine.view().row(event.slot).id); // if it is not alive, the record is of another run
    return at_ != before;
  }
  /// Once the engine has parted from the record, time passes as the caller says.
  void pass(Seconds until) {
    if (until > now_) now_ = until;
  }

  // What a backend asks of it ----------------------------------------------------------------------------------------
  void idle_until(Seconds when) {
    if (when > now_ && next(detail::idle_event(when)) == nullptr) pass(when);
  }
  /// The recorded iteration, and which requests ended with it beyond what its batch says; null once the engine has
  /// parted from the record.
  [[nodiscard]] const ClockEvent* run(const Iteration& iteration, std::vector<RequestOutcome>& outcomes) {
    outcomes.clear();
    const ClockEvent* const event = next(detail::run_event(iteration));
    if (event != nullptr)
      for (const ClockEvent::Outcome& outcome : event->outcomes)
        outcomes.push_back({outcome.slot, outcome.failed, outcome.reason});
    return event;
  }
  [[nodiscard]] bool async_done() {
    const ClockEvent* const event = next(detail::plain_event(ClockEvent::Kind::ready));
    return event == nullptr || event->kind == ClockEvent::Kind::ready;
  }
  void join_async() { (void)next(detail::plain_event(ClockEvent::Kind::joined)); }

  /// Ok, or where and how the engine parted from the record.
  [[nodiscard]] const Status& status() const { return status_; }
  /// Every event has been replayed.
  [[nodiscard]] bool finished() const { return status_.ok() && at_ == record_.events.size(); }

 private:
  static std::string describe(const ClockEvent& event) {
    switch (event.kind) {
    case ClockEvent::Kind::start:
      return "a start";
    case ClockEvent::Kind::idle:
      return "idling until " + std::to_string(event.asked.count()) + " s";
    case ClockEvent::Kind::wait:
      return "idling until something arrives";
    case ClockEvent::Kind::run:
      return "an iteration of " + std::to_string(event.requests) + " requests and " + std::to_string(event.tokens) +
             " tokens (batch " + std::to_string(event.batch) + ")";
    case ClockEvent::Kind::ready:
    case ClockEvent::Kind::late:
      return "whether a plan is ready";
    case ClockEvent::Kind::joined:
      return "the plan that is being made";
    case ClockEvent::Kind::cancel:
      return "the cancellation of slot " + std::to_string(index(event.slot)) + " after " +
             std::to_string(event.requests) + " requests";
    case ClockEvent::Kind::release:
      return "the release of tokens that are due by " + std::to_string(event.asked.count()) + " s";
    }
    return "";
  }

  ClockRecord record_;
  Seconds now_{0};
  std::size_t at_ = 0; ///< the next event
  std::int64_t step_ = 0;
  Status status_;
};

/// Stands for `Base` and takes its answers from a record that was made with `Recorded<Base>`: an engine of the same
/// policies, with the same requests, makes the same decisions, whatever disturbed the recorded run. What that run
/// planned on another thread is planned at once here, and is ready when it was ready there.
///
/// `World`, a cost model, says what a record does not: what an iteration leaves on the device for the next (a backend
/// in real time is expected to leave nothing but `background_blocks`, any other what the evaluator leaves by this
/// model), what happened within it for a timeline, and, once the engine has parted from the record, how long things
/// take.
template <class Base, class World>
class Replayed {
 public:
  using role = roles::Backend;
  using base_type = Base;
  using world_type = World;
  static constexpr bool keeps_requests = true;
  static constexpr bool real_time = Base::real_time;
  static constexpr bool ends_requests = Base::ends_requests;
  static constexpr bool plans_async = Base::plans_async;
  static constexpr bool predicts = false;

  /// `replay` outlives this. A handle: copies have one clock.
  Replayed(Replay& replay, World world) : replay_(&replay), world_(std::move(world)) {}

  [[nodiscard]] Seconds now() const { return replay_->now(); }
  void idle_until(Seconds when) { replay_->idle_until(when); }
  /// The bell has rung when it rang there.
  void idle_until(Seconds when, Doorbell& /*bell*/) requires is_real_time<Base> { idle_until(when); }
  [[nodiscard]] Status load() requires is_real_time<Base> { return {}; }

  template <class Transfer>
  void launch(const Iteration& /*iteration*/) {}
  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    const ClockEvent* const event = replay_->run(iteration, outcomes_);
    if (event == nullptr) {
      const IterationCost cost = evaluate<Transfer>(iteration, world_, compute_, state);
      replay_->pass(now() + cost.duration);
      return cost;
    }
    if constexpr (real_time)
      state.clear();
    else
      (void)evaluate<Transfer>(iteration, world_, compute_, state);
    state.background_blocks = event->background_blocks;
    return event->cost;
  }

  template <class Transfer, class Sink>
  void replay(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    evaluate_link<Transfer>(pipeline_of(iteration, world_, compute_), state, sink);
  }

  [[nodiscard]] std::span<const RequestOutcome> outcomes() const requires EndsRequests<Base> { return outcomes_; }
  void cancelled(Slot slot, std::int64_t submitted) { (void)replay_->next(detail::cancel_event(slot, submitted)); }
  void released(Seconds until) { (void)replay_->next(detail::release_event(until)); }
  void async(void (*work)(void*), void* what) requires PlansAsync<Base> { work(what); }
  [[nodiscard]] bool async_done() requires PlansAsync<Base> { return replay_->async_done(); }
  void join_async() requires PlansAsync<Base> { replay_->join_async(); }

 private:
  Replay* replay_;
  World world_;
  std::vector<RequestOutcome> outcomes_;
  LayerArray compute_{};
};

} // namespace sluice

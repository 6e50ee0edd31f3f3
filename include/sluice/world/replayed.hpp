// SPDX-License-Identifier: Apache-2.0
// Replayed: replays a recorded run's clock, so that an engine repeats its decisions.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/state/memory/shared_blocks.hpp"
#include "sluice/world/clock_record.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Walks through a record: knows the recorded time, and whether the engine still asks what the recorded engine asked.
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
  /// Returns the record's answer to `question` and sets the clock to its time. Returns null from the first question
  /// that differs, or after the end of the record.
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
  /// Applies the next recorded event to the engine if a user or a timer caused it: cancels a request or releases
  /// tokens. Call this before anything else, with the number of requests submitted, until it returns false.
  template <class E>
  bool repeat(E& engine, std::int64_t submitted) const {
    const std::size_t before = at_;
    if (!status_.ok() || at_ == record_.events.size()) return false;
    const ClockEvent& event = record_.events[at_];
    if (event.kind == ClockEvent::Kind::release) engine.release_due(event.asked);
    if (event.kind == ClockEvent::Kind::cancel && event.requests == submitted &&
        index(event.slot) < engine.view().rows.size())
      (void)engine.cancel(
          engine.view().row(event.slot).id); // a request that is not alive means the record of another run
    return at_ != before;
  }
  /// After the engine has diverged from the record, the caller advances the clock.
  void pass(Seconds until) {
    if (until > now_) now_ = until;
  }

  /// Whether the recorded engine asked for the keys of blocks.
  [[nodiscard]] bool has_names() const {
    return std::any_of(record_.events.begin(), record_.events.end(),
                       [](const ClockEvent& event) { return event.kind == ClockEvent::Kind::name; });
  }
  /// Ok, or where and how the engine diverged from the record.
  [[nodiscard]] const Status& status() const { return status_; }
  /// Whether every event has been replayed.
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
    case ClockEvent::Kind::loaded:
    case ClockEvent::Kind::loading:
      return "whether the KV of slot " + std::to_string(index(event.slot)) + " is on the device";
    case ClockEvent::Kind::name:
      return "the keys of " + std::to_string(event.tokens) + " blocks of request " + std::to_string(event.requests);
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

/// Stands in for `Base` and answers from a record that `Recorded<Base>` wrote: an engine with the same policies and the
/// same requests makes the same decisions, whatever disturbed the recorded run. Nothing is computed or moved. A plan
/// that the recorded run made on another thread is made at once here, and becomes ready when it became ready there.
///
/// Some checks of the recorded run are not made again: whether a host tier and a disk suit the policies, and whether
/// the host can attend.
///
/// `World`, a cost model or FixedDuration, supplies what a record lacks: the transfer state that an iteration leaves
/// for the next one (in real time only `background_blocks` remains, otherwise what the evaluator computes with this
/// model), the timeline within an iteration, and the length of iterations after the engine has diverged from the
/// record.
template <class Base, class World = FixedDuration>
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
  static constexpr bool keeps_released = KeepsReleased<Base>;

  /// `replay` outlives this. A handle: copies share one clock.
  Replayed(Replay& replay, World world) : replay_(&replay), world_(std::move(world)) {}
  explicit Replayed(Replay& replay) : Replayed(replay, World{}) {}

  [[nodiscard]] Seconds now() const { return replay_->now(); }
  void idle_until(Seconds when) {
    if (when > now() && replay_->next(detail::idle_event(when)) == nullptr) replay_->pass(when);
  }
  /// The bell rings when it rang in the recorded run.
  void idle_until(Seconds when, Doorbell& /*bell*/) requires is_real_time<Base> { idle_until(when); }
  [[nodiscard]] Status load() requires is_real_time<Base> { return {}; }
  /// The recorded run's plans were possible there.
  [[nodiscard]] static bool attends_on_host() { return true; }

  template <class Transfer>
  void launch(const Iteration& /*iteration*/) {}
  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    outcomes_.clear();
    const ClockEvent* const event = replay_->next(detail::run_event(iteration));
    if (event == nullptr) {
      const IterationCost cost = evaluate<Transfer>(iteration, world_, compute_, state);
      replay_->pass(now() + cost.duration);
      return cost;
    }
    for (const ClockEvent::Outcome& outcome : event->outcomes)
      outcomes_.push_back({outcome.slot, outcome.failed, outcome.reason, outcome.recompute});
    if constexpr (real_time)
      state.clear();
    else
      (void)evaluate<Transfer>(iteration, world_, compute_, state);
    state.background_blocks = event->background_blocks;
    return event->cost;
  }

  template <class Transfer, class Sink>
  void replay(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    if constexpr (!std::same_as<World, FixedDuration>)
      evaluate_link<Transfer>(pipeline_of(iteration, world_, compute_), state, sink);
  }

  [[nodiscard]] std::span<const RequestOutcome> outcomes() const requires EndsRequests<Base> { return outcomes_; }
  void cancelled(Slot slot, std::int64_t submitted) { (void)replay_->next(detail::cancel_event(slot, submitted)); }
  void released(Seconds until) { (void)replay_->next(detail::release_event(until)); }
  [[nodiscard]] bool has_loaded(Slot slot) const {
    const ClockEvent* const event = replay_->next(detail::loaded_event(slot));
    return event == nullptr || event->kind == ClockEvent::Kind::loaded;
  }
  [[nodiscard]] BlockNames block_names() const requires KeepsReleased<Base> {
    if (!replay_->has_names()) return {}; // the recorded engine had none, either, or asked for none
    return {replay_, [](void* of, RequestId id, std::size_t count, std::vector<BlockKey>& keys) {
              const ClockEvent* const event = static_cast<Replay*>(of)->next(detail::name_event(id, count));
              if (event != nullptr) keys.insert(keys.end(), event->keys.begin(), event->keys.end());
            }};
  }
  void async(void (*work)(void*), void* what) requires PlansAsync<Base> { work(what); }
  [[nodiscard]] bool async_done() requires PlansAsync<Base> {
    const ClockEvent* const event = replay_->next(detail::plain_event(ClockEvent::Kind::ready));
    return event == nullptr || event->kind == ClockEvent::Kind::ready;
  }
  void join_async() requires PlansAsync<Base> { (void)replay_->next(detail::plain_event(ClockEvent::Kind::joined)); }

 private:
  Replay* replay_;
  World world_;
  std::vector<RequestOutcome> outcomes_;
  LayerArray compute_{};
};

} // namespace sluice

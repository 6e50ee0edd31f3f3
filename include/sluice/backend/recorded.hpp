// SPDX-License-Identifier: Apache-2.0
// Recorded: any backend, with a record of its clock.
#pragma once

#include "sluice/backend/clock_record.hpp"
#include "sluice/core/assert.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

namespace detail {

/// Writes a run's clock down, and is that clock: it stands still except while something runs, idles or is waited for.
/// If it moved while the engine decides, the engine would see a new time each time it looks, and a replay with one
/// observer more would look at other times.
class ClockWriter {
 public:
  /// `record` is empty, and outlives this.
  ClockWriter(ClockRecord& record, Seconds now) : record_(&record) {
    SLUICE_ASSERT(record.events.empty(), "a record of one run");
    ClockEvent event = plain_event(ClockEvent::Kind::start);
    event.now = now;
    record_->events.push_back(std::move(event));
  }

  [[nodiscard]] Seconds now() const { return record_->events.back().now; }
  template <class Base>
  void idle_until(Base& base, Seconds when) {
    if (when <= now()) return;
    base.idle_until(when);
    write(idle_event(when), base.now());
  }
  template <class Base, class Bell>
  void idle_until(Base& base, Seconds when, Bell& bell) {
    if (when <= now()) return;
    base.idle_until(when, bell);
    write(plain_event(ClockEvent::Kind::wait), base.now());
  }
  /// `event` is the iteration's run_event with its cost.
  IterationCost ran(ClockEvent event, double background_blocks, std::span<const RequestOutcome> outcomes, Seconds end) {
    event.background_blocks = background_blocks;
    for (const RequestOutcome& outcome : outcomes) {
      SLUICE_ASSERT(outcome.reason.find('\n') == std::string_view::npos, "a reason is one line");
      event.outcomes.push_back({outcome.slot, outcome.failed, std::string{outcome.reason}});
    }
    write(std::move(event), end);
    return record_->events.back().cost;
  }
  template <class Base>
  bool async_done(Base& base) {
    const bool done = base.async_done();
    write(plain_event(done ? ClockEvent::Kind::ready : ClockEvent::Kind::late), now());
    return done;
  }
  template <class Base>
  void join_async(Base& base) {
    base.join_async();
    write(plain_event(ClockEvent::Kind::joined), base.now());
  }
  void cancelled(Slot slot, std::int64_t submitted) { write(cancel_event(slot, submitted), now()); }
  void released(Seconds until) { write(release_event(until), now()); }

 private:
  void write(ClockEvent event, Seconds end) {
    event.now = std::max(now(), end);
    record_->events.push_back(std::move(event));
  }

  ClockRecord* record_;
};

} // namespace detail

/// Does what `Base` does and records its answers. A handle, where `Base` is one: copies write one record.
template <class Base>
class Recorded {
 public:
  using role = roles::Backend;
  using base_type = Base;
  static constexpr bool keeps_requests = true;
  static constexpr bool real_time = Base::real_time;
  static constexpr bool ends_requests = Base::ends_requests;
  static constexpr bool plans_async = Base::plans_async;
  static constexpr bool predicts = false;

  /// `record` is empty, and outlives this.
  Recorded(Base base, ClockRecord& record) : base_(std::move(base)), writer_(record, base_.now()) {}

  [[nodiscard]] Seconds now() const { return writer_.now(); }
  void idle_until(Seconds when) { writer_.idle_until(base_, when); }
  void idle_until(Seconds when, Doorbell& bell) requires is_real_time<Base> { writer_.idle_until(base_, when, bell); }
  [[nodiscard]] Status load() requires is_real_time<Base> { return base_.load(); }

  template <class Transfer>
  void launch(const Iteration& iteration) {
    base_.template launch<Transfer>(iteration);
  }
  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    ClockEvent event = detail::run_event(iteration);
    event.cost = base_.template wait<Transfer>(iteration, state);
    const Seconds end = base_.now();
    std::span<const RequestOutcome> outcomes;
    if constexpr (EndsRequests<Base>) outcomes = base_.outcomes();
    return writer_.ran(std::move(event), state.background_blocks, outcomes, end);
  }

  template <class Transfer, class Sink>
  void replay(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    base_.template replay<Transfer>(iteration, state, sink);
  }

  [[nodiscard]] std::span<const RequestOutcome> outcomes() const requires EndsRequests<Base> {
    return base_.outcomes();
  }
  void cancelled(Slot slot, std::int64_t submitted) {
    if constexpr (KeepsRequests<Base>) base_.cancelled(slot, submitted);
    writer_.cancelled(slot, submitted);
  }
  void released(Seconds until) {
    if constexpr (KeepsRequests<Base>) base_.released(until);
    writer_.released(until);
  }
  void async(void (*work)(void*), void* what) requires PlansAsync<Base> { base_.async(work, what); }
  [[nodiscard]] bool async_done() requires PlansAsync<Base> { return writer_.async_done(base_); }
  void join_async() requires PlansAsync<Base> { writer_.join_async(base_); }

  [[nodiscard]] Base& base() { return base_; }
  [[nodiscard]] const Base& base() const { return base_; }

 private:
  Base base_;
  detail::ClockWriter writer_;
};

} // namespace sluice

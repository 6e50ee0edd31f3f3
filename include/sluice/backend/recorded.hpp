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

/// Does what `Base` does and writes down what it answers. Its clock stands still but while something runs, idles or is
/// waited for: of a clock that moves while the engine decides, an engine would see as many times as it happens to look,
/// and a replay with one observer more would look at others. A handle, where `Base` is one: copies write one record.
template <class Base>
class Recorded {
 public:
  using role = roles::Backend;
  using base_type = Base;
  static constexpr bool real_time = is_real_time<Base>;

  /// `record` is empty, and outlives this.
  Recorded(Base base, ClockRecord& record) : base_(std::move(base)), record_(&record) {
    SLUICE_ASSERT(record.events.empty(), "a record of one run");
    ClockEvent event = detail::plain_event(ClockEvent::Kind::start);
    event.now = base_.now();
    record_->events.push_back(event);
  }

  [[nodiscard]] Seconds now() const { return record_->events.back().now; }
  void idle_until(Seconds when) {
    if (when <= now()) return;
    base_.idle_until(when);
    write(detail::idle_event(when), base_.now());
  }

  template <class Transfer>
  IterationCost run(const Iteration& iteration, typename Transfer::State& state) {
    ClockEvent event = detail::run_event(iteration);
    event.cost = base_.template run<Transfer>(iteration, state);
    const Seconds end = base_.now();
    event.behind_blocks = state.behind_blocks;
    if constexpr (EndsRequests<Base>)
      for (const RequestOutcome& outcome : base_.outcomes()) {
        SLUICE_ASSERT(outcome.reason.find('\n') == std::string_view::npos, "a reason is one line");
        event.outcomes.push_back({outcome.slot, outcome.failed, std::string{outcome.reason}});
      }
    write(std::move(event), end);
    return record_->events.back().cost;
  }

  template <class Transfer, class Sink>
  void replay(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    base_.template replay<Transfer>(iteration, state, sink);
  }

  [[nodiscard]] std::span<const RequestOutcome> outcomes() const requires EndsRequests<Base> {
    return base_.outcomes();
  }
  void beside(void (*work)(void*), void* what) requires PlansBeside<Base> { base_.beside(work, what); }
  [[nodiscard]] bool beside_done() requires PlansBeside<Base> {
    const bool done = base_.beside_done();
    write(detail::plain_event(done ? ClockEvent::Kind::ready : ClockEvent::Kind::late), now());
    return done;
  }
  void join_beside() requires PlansBeside<Base> {
    base_.join_beside();
    write(detail::plain_event(ClockEvent::Kind::joined), base_.now());
  }

  [[nodiscard]] Base& base() { return base_; }
  [[nodiscard]] const Base& base() const { return base_; }

 private:
  void write(ClockEvent event, Seconds end) {
    event.now = std::max(now(), end);
    record_->events.push_back(std::move(event));
  }

  Base base_;
  ClockRecord* record_;
};

} // namespace sluice

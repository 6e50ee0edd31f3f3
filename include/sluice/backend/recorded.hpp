// SPDX-License-Identifier: Apache-2.0
// Recorded: any backend, with a record of its clock.
#pragma once

#include "sluice/backend/clock_record.hpp"
#include "sluice/core/assert.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

/// Does what `Base` does and writes down the times. Its clock stands still but while something runs or idles: of a
/// clock that moves while the engine decides, an engine would see as many times as it happens to look, and a replay
/// with one observer more would look at others.
template <class Base>
class Recorded {
 public:
  using role = roles::Backend;
  using base_type = Base;

  /// `record` is empty, and outlives this.
  Recorded(Base base, ClockRecord& record) : base_(std::move(base)), record_(&record), now_(base_.now()) {
    SLUICE_ASSERT(record.events.empty(), "a record of one run");
    ClockEvent event;
    event.kind = ClockEvent::Kind::start;
    write(event);
  }

  [[nodiscard]] Seconds now() const { return now_; }
  void idle_until(Seconds when) {
    if (when <= now_) return;
    base_.idle_until(when);
    ClockEvent event;
    event.kind = ClockEvent::Kind::idle;
    event.asked = when;
    write(event);
  }

  template <class Transfer>
  IterationCost run(const Iteration& iteration, typename Transfer::State& state) {
    ClockEvent event = detail::run_event(iteration);
    event.cost = base_.template run<Transfer>(iteration, state);
    event.behind_blocks = state.behind_blocks;
    write(event);
    return event.cost;
  }

  template <class Transfer, class Sink>
  void replay(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    base_.template replay<Transfer>(iteration, state, sink);
  }

  [[nodiscard]] Base& base() { return base_; }
  [[nodiscard]] const Base& base() const { return base_; }

 private:
  void write(ClockEvent& event) {
    event.now = now_ = std::max(now_, base_.now());
    record_->events.push_back(event);
  }

  Base base_;
  ClockRecord* record_;
  Seconds now_;
};

} // namespace sluice
